package main

import (
	"crypto/rand"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// newestProtocol is the protocol version that a registration begins with; the
// handshake finds out which one the server speaks.
const newestProtocol = "2026-07-28"

func registerCommand(c *cli) *cobra.Command {
	var (
		request                    registryv1.RegisterMcpServerRequest
		auth, direction, transport string
		labels                     []string
		key                        string
		wait                       waiting
	)
	command := &cobra.Command{
		Use:   "register NAME {--url URL | --connection NAME | --transport stdio --command-ref NAME} --auth oauth2|workload|none",
		Short: "Register a server and start its first discovery",
		Long: `Registers a server and starts its first discovery. Nothing of it is callable
before somebody approved it. A server that asks for credentials is reached by a
connection, see countersign connection. A server of transport stdio is named by a command of
the operator's allow-list, and is not started before its launch was approved.

The same --idempotency-key with the same values registers once, however often
the command runs; without the flag a key is made.`,
		Example: `  countersign server register search --url https://mcp.example.com/mcp --auth oauth2 --owner team-search --wait verified
  countersign server register wiki --connection wiki --auth oauth2
  countersign server register demo --url http://127.0.0.1:8090/open/mcp --auth none --exception-reason "demo on this machine"
  countersign server register files --transport stdio --command-ref filesystem --auth workload`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if err := fill(&request, auth, direction, transport, labels); err != nil {
				return err
			}
			if err := wait.check(); err != nil {
				return err
			}
			if key == "" {
				key = rand.Text()
			}
			ctx, cancel := c.within(cmd.Context(), wait.usual())
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			response, err := api.servers.RegisterMcpServer(keyed(ctx, key), &request)
			if err != nil {
				return c.repeatable(err, key)
			}
			return c.showAwaited(ctx, api, response.GetServer(), wait)
		},
	}
	flags := command.Flags()
	flags.StringVar(&request.EndpointUrl, "url", "", "`URL` of the server, without credentials")
	flags.StringVar(&request.EndpointRef, "connection", "", "`NAME` of a connection, instead of --url: its newest version is pinned")
	flags.StringVar(&auth, "auth", "", "`KIND` of authentication: oauth2 (protected resource), workload (identity) or none (an exception that expires)")
	flags.StringVar(&request.ExceptionReason, "exception-reason", "", "`TEXT`: why it may be reached without authentication; for --auth none")
	flags.StringVar(&direction, "direction", "consumed", "`DIRECTION`: consumed (others offer, we call) or exposed (we offer, others call)")
	flags.StringVar(&transport, "transport", "streamable_http", "`TRANSPORT`: streamable_http or stdio")
	flags.StringVar(&request.CommandRef, "command-ref", "", "`NAME` of the operator's command, for --transport stdio")
	flags.StringVar(&request.DialAddress, "dial-address", "", "`HOST:PORT` to connect to instead of the URL's")
	flags.StringVar(&request.GovernancePolicyRef, "policy", registry.PolicyDefault, "`NAME` of the governance policy bundle")
	flags.StringVar(&request.ProtocolVersion, "protocol-version", newestProtocol, "protocol `VERSION` to begin with")
	flags.StringVar(&request.ReleaseId, "release-id", "", "`ID` of the asset release that it belongs to")
	flags.StringVar(&request.Description, "description", "", "`TEXT` for people")
	flags.StringVar(&request.Owner, "owner", "", "`NAME` of who answers for it")
	flags.StringVar(&request.ProductVersion, "product-version", "", "`VERSION` of the product behind the server")
	flags.StringArrayVar(&labels, "label", nil, "`KEY=VALUE`, for selection; may be repeated")
	flags.StringVar(&key, "idempotency-key", "", "`KEY` of this registration (default a new one)")
	completeWith(command, "connection", c.completeConnection)
	completeWords(command, "auth", authenticationWords())
	completeWords(command, "direction", words[registryv1.McpDirection]())
	completeWords(command, "transport", words[registryv1.McpTransport]())
	wait.addFlag(command)
	return command
}

// fill puts the values of flags that are not plain text into the request.
func fill(r *registryv1.RegisterMcpServerRequest, auth, direction, transport string, labels []string) (err error) {
	if !registry.ValidName(r.GetName()) {
		return usagef("%q is no name for a server: 1 to %d of a-z, 0-9, '_' and '-', a letter or digit at both ends", r.GetName(), registry.MaxNameLength)
	}
	if r.Authentication, err = parseAuthentication(auth); err != nil {
		return err
	}
	if r.Direction, err = parseWord[registryv1.McpDirection]("--direction", direction); err != nil {
		return err
	}
	if r.Transport, err = parseWord[registryv1.McpTransport]("--transport", transport); err != nil {
		return err
	}
	http := r.GetTransport() == registryv1.McpTransport_MCP_TRANSPORT_STREAMABLE_HTTP
	if http && r.GetEndpointUrl() == "" && r.GetEndpointRef() == "" {
		return usagef("--url or --connection is required")
	}
	if !http && r.GetCommandRef() == "" {
		return usagef("--transport stdio needs --command-ref NAME: a command of the operator's allow-list")
	}
	none := r.GetAuthentication() == registryv1.McpAuthentication_MCP_AUTHENTICATION_NONE_EXCEPTION
	if none && r.GetExceptionReason() == "" {
		return usagef("--auth none needs --exception-reason TEXT: why it may be reached without authentication")
	}
	r.Labels, err = parseLabels(labels)
	return err
}

func parseLabels(pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--label %q: KEY=VALUE is needed", pair)
		}
		if _, twice := labels[key]; twice {
			return nil, usagef("--label %s is given twice", key)
		}
		labels[key] = value
	}
	return labels, nil
}

// repeatable adds to a failed call how to repeat it without doing it twice,
// when nobody can say whether it was done.
func (c *cli) repeatable(err error, key string) error {
	f := c.failureOf(err)
	if away(err) || f.Exit == exitTimeout {
		f.Next = some("; ", f.Next, "repeat it with --idempotency-key "+key+", so that it is not done twice")
	}
	return f
}
