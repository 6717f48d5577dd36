package embedded

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long a closed workflow can be looked at.
const retention = 7 * 24 * time.Hour

// register writes the namespace and its search attributes into the database before a server runs on it. That makes
// them usable at once: over the API they would have to pass several caches first.
func (s *store) register(ctx context.Context, namespace string, attributes map[string]enumspb.IndexedValueType) error {
	created, err := sqlite.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err != nil {
		return err
	}
	created.Detail.Config.Retention = durationpb.New(retention)
	if err := sqlite.CreateNamespaces(s.config, created); err != nil { // does nothing when it exists
		return err
	}

	rows, err := s.db.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &namespace})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	row, serializer := rows[0], serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	aliases, err := withAliases(detail.GetConfig().GetCustomSearchAttributeAliases(), attributes)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	detail.Config.CustomSearchAttributeAliases = aliases
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	row.Data, row.DataEncoding = blob.GetData(), blob.GetEncodingType().String()
	if _, err := s.db.UpdateNamespace(ctx, &row); err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	return nil
}

// withAliases returns aliases, a map from a column such as Keyword03 to the attribute that uses it, with a free
// column of the right type for every attribute that has none.
func withAliases(aliases map[string]string, attributes map[string]enumspb.IndexedValueType) (map[string]string, error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).GetCustomSearchAttributes()
	result := make(map[string]string, len(aliases)+len(attributes))
	columnOf := make(map[string]string, len(aliases))
	for column, name := range aliases {
		result[column], columnOf[name] = name, column
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		kind := attributes[name]
		if sadefs.IsReserved(name) {
			return nil, fmt.Errorf("search attribute %s: the name belongs to Temporal", name)
		}
		if column, ok := columnOf[name]; ok {
			if columns[column] != kind {
				return nil, fmt.Errorf("search attribute %s: is a %s already, not a %s", name, columns[column], kind)
			}
			continue
		}
		free := ""
		for _, column := range slices.Sorted(maps.Keys(columns)) {
			if _, taken := result[column]; !taken && columns[column] == kind {
				free = column
				break
			}
		}
		if free == "" {
			return nil, fmt.Errorf("search attribute %s: no column of type %s is left", name, kind)
		}
		result[free] = name
	}
	return result, nil
}
