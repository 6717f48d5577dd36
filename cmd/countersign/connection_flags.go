package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// reachFields are the flags of connections and the fields that they change.
var reachFields = []struct{ flag, field string }{
	{"url", "base_url"},
	{"dial-address", "dial_address"},
	{"network", "allowed_networks"},
	{"ca-file", "ca_bundle"},
	{"auth", "auth_kind"},
	{"header", "headers"},
	{"issuer", "issuer"},
	{"client-id", "client_id"},
	{"secret-ref", "secret_ref"},
	{"scope", "scopes"},
	{"token-endpoint", "token_endpoint"},
	{"step-up-scope", "step_up_scopes"},
	{"client-certificate", "client_certificate_ref"},
	{"client-key", "client_key_ref"},
	{"description", "description"},
}

// reachFlags are what flags say of a connection.
type reachFlags struct {
	text             registryv1.ConnectionSpec
	auth, ca         string
	headers          []string
	networks, scopes []string
	stepUp           []string
}

func (f *reachFlags) names() []string {
	out := make([]string, len(reachFields))
	for i, field := range reachFields {
		out[i] = "--" + field.flag
	}
	return out
}

func (f *reachFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.text.BaseUrl, "url", "", "`URL` of the server, without credentials")
	flags.StringVar(&f.text.DialAddress, "dial-address", "", "`HOST:PORT` to connect to instead of the URL's")
	flags.StringArrayVar(&f.networks, "network", nil, "`CIDR` that may be dialled although it is not public, as far as the operator lets connections say so; may be repeated")
	flags.StringVar(&f.ca, "ca-file", "", "`FILE` of certificates in PEM that are trusted instead of the machine's authorities")
	flags.StringVar(&f.auth, "auth", "", "`KIND`: "+strings.Join(words[registryv1.ConnectionAuthKind](), ", ")+" (default headers when there are headers, else none)")
	flags.StringArrayVar(&f.headers, "header", nil, "`NAME=REFERENCE`: a header whose whole value is that secret, such as Authorization=env:SEARCH_BEARER; may be repeated")
	flags.StringVar(&f.text.Issuer, "issuer", "", "`URL` of the only authorization server that gets the credentials")
	flags.StringVar(&f.text.ClientId, "client-id", "", "`ID` by which the issuer knows us; without one we register there, where the operator allows it")
	flags.StringVar(&f.text.SecretRef, "secret-ref", "", "`REFERENCE` to the client's secret or key, or to a token: env:NAME, file:NAME or vault:MOUNT/PATH#FIELD")
	flags.StringArrayVar(&f.scopes, "scope", nil, "`SCOPE` to ask for; may be repeated")
	flags.StringVar(&f.text.TokenEndpoint, "token-endpoint", "", "`URL` where the issuer gives tokens, when that is not at its own origin; its metadata must say the same")
	flags.StringArrayVar(&f.stepUp, "step-up-scope", nil, "`SCOPE` to ask for besides, when the server says that it wants it; may be repeated")
	flags.StringVar(&f.text.ClientCertificateRef, "client-certificate", "", "`REFERENCE` to our certificate in PEM, for servers that ask for one")
	flags.StringVar(&f.text.ClientKeyRef, "client-key", "", "`REFERENCE` to its key in PEM")
	flags.StringVar(&f.text.Description, "description", "", "`TEXT` for people")
	completeWords(command, "auth", words[registryv1.ConnectionAuthKind]())
}

// spec gives what the flags say, and which fields were said.
func (f *reachFlags) spec(cmd *cobra.Command) (*registryv1.ConnectionSpec, *fieldmaskpb.FieldMask, error) {
	mask := &fieldmaskpb.FieldMask{}
	for _, field := range reachFields {
		if cmd.Flags().Changed(field.flag) {
			mask.Paths = append(mask.Paths, field.field)
		}
	}
	spec := &f.text
	spec.AllowedNetworks, spec.Scopes = unlessEmpty(f.networks), unlessEmpty(f.scopes)
	spec.StepUpScopes = unlessEmpty(f.stepUp)
	var err error
	if f.auth != "" {
		if spec.AuthKind, err = parseWord[registryv1.ConnectionAuthKind]("--auth", f.auth); err != nil {
			return nil, nil, err
		}
	}
	if spec.Headers, err = parseHeaders(unlessEmpty(f.headers)); err != nil {
		return nil, nil, err
	}
	for _, one := range []struct{ flag, ref string }{
		{"secret-ref", spec.GetSecretRef()}, {"client-certificate", spec.GetClientCertificateRef()}, {"client-key", spec.GetClientKeyRef()},
	} {
		if _, err := registry.ParseSecretRef(one.ref); err != nil && one.ref != "" {
			return nil, nil, noReference(one.flag)
		}
	}
	if f.ca != "" {
		raw, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, nil, usagef("--ca-file %s cannot be read: %s", f.ca, err)
		}
		if len(raw) > registry.MaxCABundle {
			return nil, nil, usagef("--ca-file %s is larger than %d bytes", f.ca, registry.MaxCABundle)
		}
		spec.CaBundle = string(raw)
	}
	return spec, mask, nil
}

// follow lets the kind of authentication follow the headers, as long as it is
// one of the two that headers decide between.
func (f *reachFlags) follow(cmd *cobra.Command, now reach, mask *fieldmaskpb.FieldMask) {
	kind := now.GetSpec().GetAuthKind()
	if cmd.Flags().Changed("header") && !cmd.Flags().Changed("auth") &&
		(kind == registryv1.ConnectionAuthKind_CONNECTION_AUTH_KIND_NONE || kind == registryv1.ConnectionAuthKind_CONNECTION_AUTH_KIND_HEADERS) {
		mask.Paths = append(mask.Paths, "auth_kind")
	}
}

// noReference is what is told of a text in the place of a reference. It may be
// the secret itself, so it is not repeated, and does not leave the program.
func noReference(flag string) error {
	return usagef("--%s is no reference: env:NAME, file:NAME or vault:MOUNT/PATH#FIELD is needed, never the secret itself", flag)
}

// unlessEmpty gives a list; one empty value is an empty list.
func unlessEmpty(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}

// parseHeaders reads NAME=REFERENCE.
func parseHeaders(pairs []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, pair := range pairs {
		name, ref, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--header: NAME=REFERENCE is needed")
		}
		if _, twice := headers[name]; twice {
			return nil, usagef("--header %s is given twice", name)
		}
		if _, err := registry.ParseSecretRef(ref); err != nil {
			return nil, noReference("header " + name)
		}
		headers[name] = ref
	}
	return headers, nil
}
