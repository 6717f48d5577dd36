package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// monitoring parses the rules for Prometheus and the queries of the dashboard.
func monitoring(root string) error {
	model.NameValidationScheme = model.LegacyValidation
	rules := filepath.Join(root, "deploy", "alerts", "countersign.yaml")
	_, faults := rulefmt.ParseFile(rules, false)
	raw, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "countersign.json"))
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		return errors.Join(append(faults, fmt.Errorf("the dashboard has no panels: %w", err))...)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if _, err := parser.ParseExpr(strings.ReplaceAll(target.Expr, "$tenant", ".*")); err != nil {
				faults = append(faults, fmt.Errorf("the panel %q: %w", panel.Title, err))
			}
		}
	}
	return errors.Join(faults...)
}
