package doctor

import (
	"context"
	"fmt"

	"countersign/cmd/internal/app"
)

// callers are those who may call, and the issuers that vouch for them.
func (x *examination) callers(ctx context.Context) {
	authenticator, err := app.Authenticator(x.conf, x.log)
	if err != nil {
		x.failed("callers", "see docs/configuration.md#issuers", err)
		return
	}
	if x.conf.Auth.TokensFile != "" {
		x.okf("callers", "tokens of %s are taken", x.conf.Auth.TokensFile)
	}
	if !authenticator.Issuers() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, err := range authenticator.CheckEach(ctx) {
		check := fmt.Sprintf("issuer %s", x.conf.Auth.Issuers[i].Issuer)
		if err != nil {
			x.failed(check, "see that the issuer answers at its /.well-known/openid-configuration, and that auth.allow_networks has its network if that is not public", err)
			continue
		}
		x.okf(check, "its keys can be read")
	}
}

func (x *examination) certificates() {
	if err := app.CheckTLS(x.conf.TLS); err != nil {
		x.failed("tls", "see that tls.cert_file and tls.key_file are readable and belong together", err)
		return
	}
	if x.conf.TLS.Enabled() {
		x.okf("tls", "the certificate and its key fit together")
	}
}
