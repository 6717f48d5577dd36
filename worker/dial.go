package worker

import (
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"countersign/registry"
	"countersign/workflows"
)

// Address says where Temporal is. An empty HostPort takes everything from the
// environment and the configuration file that the temporal command line tool
// reads too (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TLS…).
type Address struct {
	HostPort  string
	Namespace string
	// Codec encrypts workflow data; nil: it is not encrypted.
	Codec *workflows.Codec
}

// Dial prepares to reach Temporal; a Temporal that is away just now is no error,
// since reads and resolve do without it. Every client of this installation is made here, so
// that all of them carry data and errors the same way.
func Dial(at Address, logger *slog.Logger) (client.Client, string, error) {
	options := client.Options{HostPort: at.HostPort, Namespace: at.Namespace}
	if at.HostPort == "" {
		var err error
		if options, err = envconfig.LoadDefaultClientOptions(); err != nil {
			return nil, "", registry.Errorf(registry.ReasonInvalidArgument, "the Temporal connection settings: %w", err)
		}
		if at.Namespace != "" {
			options.Namespace = at.Namespace
		}
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.DataConverter, options.FailureConverter = at.Codec.DataConverter(), at.Codec.FailureConverter()
	options.Logger = log.NewStructuredLogger(logger)
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", registry.Errorf(registry.ReasonInvalidArgument, "the Temporal connection settings: %w", err)
	}
	return c, options.Namespace, nil
}
