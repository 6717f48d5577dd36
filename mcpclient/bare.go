package mcpclient

import (
	"context"

	"countersign/registry"
)

// stepBare is the question to a server that claims an authentication, without any.
const stepBare = "without credentials"

// claims says whether a server of a target claims to refuse who shows nothing.
func claims(target registry.Target) bool {
	return target.Transport == registry.TransportStreamableHTTP &&
		(target.Authentication == registry.AuthOAuth2 || target.Authentication == registry.AuthWorkloadIdentity)
}

// armed says whether we have anything to show to the server: headers, a token, or a
// certificate.
func (v *visit) armed() bool { return v.badge != nil || len(v.way.Certificates) > 0 }

// answersBare asks the server as somebody does who has nothing to show: for the
// handshake and, if it has tools, for their list. It goes the same way and trusts the
// same authorities. Both answered is what no server with an authentication does. One
// that does not answer at all has not answered; the meeting itself tells why.
func (v *visit) answersBare(parent context.Context, era string) bool {
	ctx, cancel := context.WithTimeout(parent, v.limits.Connect)
	defer cancel()
	done := v.diary.step(stepBare, 0)
	bare := &visit{
		guard: v.guard, target: v.target, limits: v.limits, self: v.self, agent: v.agent, diary: newDiary(nil), pulse: newPulse(),
	}
	bare.way = v.way
	bare.way.Certificates = nil
	bare.http = bare.client(v.limits.PageBytes)
	defer bare.http.CloseIdleConnections()
	if _, err := bare.meet(ctx, era, false); err != nil {
		done(0, 0, nil)
		return false
	}
	done(0, 0, registry.Errorf(registry.ReasonAuthNotEnforced, "the server answers without credentials"))
	return true
}
