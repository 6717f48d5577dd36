package registry

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// retire ends the server. From registered and verified it is the withdrawal of
// somebody's request (C7); a repeat is no fault (R171).
func (r *Record) retire(g Ruling, op Operation, now time.Time) error {
	return r.Retire(op, g.Comment, now)
}

// Retire ends the server for ever; its name is free at once.
func (r *Record) Retire(op Operation, comment string, now time.Time) error {
	s := &r.Server
	if s.State == StateRetired {
		return nil
	}
	note := "retired"
	if s.State == StateRegistered || s.State == StateVerified {
		note = "withdrawn"
	}
	if err := s.move(StateRetired); err != nil {
		return err
	}
	s.RetiredAt = now
	if s.Review.Status == ReviewPending {
		s.Review.Status, s.Review.DecidedAt, s.Review.DecidedBy = ReviewNone, now, op.Actor.Subject
	}
	r.touch()
	if comment != "" {
		note += ": " + comment
	}
	r.note(note)
	return nil
}

// ExpireException degrades a server whose exception's timer fired (C8). The
// timer decides; a renewed exception makes it stale.
func (r *Record) ExpireException(expiry time.Time, _ time.Time) error {
	s := &r.Server
	if !s.State.Probed() || !s.Exception.ExpiresAt.Equal(expiry) {
		return nil
	}
	s.Causes = s.Causes.With(CauseAuthExceptionExpired)
	r.touch()
	r.note("the exception for no authentication expired")
	if s.Review.Status != ReviewPending {
		r.openReview(System("expiry").Subject, expiry, expiry)
	}
	return s.settle()
}

// Edit is a change of what people say about a server. A nil field stays.
type Edit struct {
	Etag                string             `json:"etag,omitempty"`
	Description         *string            `json:"description,omitempty"`
	Owner               *string            `json:"owner,omitempty"`
	Labels              *map[string]string `json:"labels,omitempty"`
	ProductVersion      *string            `json:"productVersion,omitempty"`
	GovernancePolicyRef *string            `json:"governancePolicyRef,omitempty"`
	URL                 *string            `json:"url,omitempty"`            // another target
	DialAddress         *string            `json:"dialAddress,omitempty"`    // another target
	ConnectionName      *string            `json:"connectionName,omitempty"` // the newest version of the connection: another target if it differs
	CommandRef          *string            `json:"commandRef,omitempty"`     // the command as it is now: another target if it differs
	Command             *Command           `json:"-"`                        // what CommandRef names, once it was looked up
}

// Check says everything that is wrong with an edit.
func (e Edit) Check() error {
	bad := Errorf(ReasonInvalidArgument, "the update is not valid")
	var labels map[string]string
	if e.Labels != nil {
		labels = *e.Labels
	}
	checkDetails(bad, deref(e.Description), deref(e.Owner), deref(e.ProductVersion), labels)
	if e.GovernancePolicyRef != nil {
		if _, err := ParsePolicyRef(*e.GovernancePolicyRef); err != nil {
			bad.WithField("governance_policy_ref", "%s", err.Error())
		}
	}
	if e.URL != nil {
		if err := CheckEndpoint(*e.URL); err != nil {
			if ReasonOf(err) == ReasonSecretInRequest {
				return err
			}
			bad.WithField("endpoint_url", "%s", err.Error())
		}
	}
	if e.DialAddress != nil {
		if err := CheckDialAddress(*e.DialAddress); err != nil {
			bad.WithField("dial_address", "%s", err.Error())
		}
	}
	if e.ConnectionName != nil {
		if !ValidName(*e.ConnectionName) || ValidServerID(*e.ConnectionName) {
			bad.WithField("endpoint_ref", "is no name of a connection")
		}
		if e.URL != nil || e.DialAddress != nil {
			bad.WithField("endpoint_url", "is the connection's to say")
		}
	}
	if e.CommandRef != nil && !ValidName(*e.CommandRef) {
		bad.WithField("command_ref", "is no name of a command")
	}
	if len(bad.Fields) > 0 {
		return bad
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Edit applies an edit. Another target writes a new version of the connection
// and unbinds everything of the server (C10).
func (r *Record) Edit(e Edit, op Operation, now time.Time) error {
	s := &r.Server
	if s.State == StateRetired {
		return Errorf(ReasonServerRetired, "server %s is retired", s.Name)
	}
	if err := CheckEtag(e.Etag, s.Version); err != nil {
		return err
	}
	if err := e.Check(); err != nil {
		return err
	}
	var fields []string
	set := func(name string, to *string, field *string) {
		if to != nil && *to != *field {
			*field = *to
			fields = append(fields, name)
		}
	}
	set("description", e.Description, &s.Description)
	set("owner", e.Owner, &s.Owner)
	set("product_version", e.ProductVersion, &s.ProductVersion)
	set("governance_policy_ref", e.GovernancePolicyRef, &s.GovernancePolicyRef)
	if e.Labels != nil {
		s.Labels = *e.Labels
		fields = append(fields, "labels")
	}
	connection, command, err := r.retargeted(e, set)
	if err != nil {
		return err
	}
	target := TargetOf(s, connection, command).Digest()
	if target != s.TargetDigest && len(fields) == 0 {
		fields = append(fields, "command_ref") // the same name, and another command behind it
	}
	if len(fields) == 0 {
		return nil
	}
	r.touch()
	r.note("edited " + strings.Join(fields, ", "))
	if target != s.TargetDigest {
		r.retarget(connection, command, target, op, now)
	} else if connection.Ref() != r.Connection.Ref() {
		r.pin(connection)
	}
	return nil
}

// TakeConnection takes the newest version of the connection that the server
// uses, after somebody edited it (design.md §4). The server was told the name: it
// may use another one by now, or have taken this version already.
func (r *Record) TakeConnection(op Operation, now time.Time) error {
	s, next := &r.Server, r.Named
	if s.State == StateRetired || next == nil || next.Deleted || next.Name != r.Connection.Name || next.Version <= r.Connection.Version {
		return nil
	}
	if err := next.Fits(s.Authentication); err != nil {
		return err
	}
	r.touch()
	r.note("took connection " + next.Ref())
	if target := TargetOf(s, *next, nil).Digest(); target != s.TargetDigest {
		r.retarget(*next, nil, target, op, now)
	} else {
		r.pin(*next)
	}
	return nil
}

// pin makes a version of a connection, which is there, the server's.
func (r *Record) pin(connection Connection) {
	r.Connection, r.changes.Pinned = connection, true
	r.Server.EndpointRef = connection.Ref()
}

// retargeted is where the server is to be reached after an edit.
func (r *Record) retargeted(e Edit, set func(name string, to, field *string)) (Connection, *Command, error) {
	s := &r.Server
	connection, command := r.Connection, r.Command
	if s.Transport == TransportStdio {
		if e.URL != nil || e.DialAddress != nil || e.ConnectionName != nil {
			return connection, command, Errorf(ReasonInvalidArgument, "server %s is started by a command and has no endpoint", s.Name).
				WithField("endpoint_url", "is not for transport stdio")
		}
		set("command_ref", e.CommandRef, &s.CommandRef)
		if e.Command != nil {
			command = e.Command
		}
		return connection, command, nil
	}
	if e.CommandRef != nil {
		return connection, command, Errorf(ReasonInvalidArgument, "server %s is reached over the network", s.Name).
			WithField("command_ref", "is only for transport stdio")
	}
	if e.ConnectionName != nil {
		next := r.Named
		if next == nil || next.Deleted || next.Name != *e.ConnectionName {
			return connection, command, ConnectionNotFound()
		}
		if err := next.Fits(s.Authentication); err != nil {
			return connection, command, err
		}
		set("endpoint_ref", new(next.Ref()), new(connection.Ref()))
		return *next, command, nil
	}
	if connection.Name != s.ServerID && (e.URL != nil || e.DialAddress != nil) {
		return connection, command, Errorf(ReasonConnectionShared, "server %s is reached by the connection %s", s.Name, connection.Name).
			With("connection", connection.Name).
			WithNext("edit the connection, for all servers that use it, or give this server another one: countersign server update %s --connection NAME", s.Name)
	}
	set("endpoint_url", e.URL, &connection.URL)
	set("dial_address", e.DialAddress, &connection.DialAddress)
	return connection, command, nil
}

// retarget takes another target: everything that was approved was approved of
// the one before, and what was discovered was discovered there (C10).
func (r *Record) retarget(connection Connection, command *Command, target string, op Operation, now time.Time) {
	s := &r.Server
	s.TargetDigest, s.SnapshotDigest, s.ToolsDigest, s.Suspect, s.Doubted = target, "", "", "", false
	switch {
	case s.Transport == TransportStdio:
		r.Command, r.changes.Command = command, command
		s.Launch = Launch{Status: LaunchPending}
	case connection.Ref() != r.Connection.Ref():
		r.pin(connection)
	default:
		connection.Version, connection.CreatedAt, connection.CreatedBy = r.Connection.Version+1, now, op.Actor.Subject
		r.Connection, r.changes.Connection = connection, &connection
		s.EndpointRef = connection.Ref()
	}
	if s.Direction == DirectionExposed {
		s.ExposedURL = connection.URL
	}
	for _, name := range sortedKeys(r.Bindings) {
		r.unbind(name, ReasonTargetChanged)
	}
	for uri, b := range r.Resources {
		if b.Bound {
			b.Bound, b.UnboundBy, r.changes.Resources[uri] = false, ReasonTargetChanged, true
		}
	}
	for name, b := range r.Prompts {
		if b.Bound {
			b.Bound, b.UnboundBy, r.changes.Prompts[name] = false, ReasonTargetChanged, true
		}
	}
	if s.Review.Status == ReviewPending {
		// What was asked about is no more; the discovery that follows asks anew.
		s.Review.Status, s.Review.DecidedAt, s.Review.DecidedBy = ReviewNone, now, op.Actor.Subject
	}
}

// Retargets says whether an edit asks for another target.
func (e Edit) Retargets() bool {
	return e.URL != nil || e.DialAddress != nil || e.CommandRef != nil || e.ConnectionName != nil
}

// BeginDiscovery gives the next discovery its number, or keeps that of the one
// that runs (R54). One whose look was applied already is not joined: who asks
// now wants to know what the server says from now on.
func (r *Record) BeginDiscovery(running int64, by Actor) error {
	s := &r.Server
	if s.State == StateRetired {
		return Errorf(ReasonServerRetired, "server %s is retired", s.Name)
	}
	if s.LaunchPending() {
		return s.launchPending()
	}
	if running != 0 && running == s.Discovery.Number && s.Discovery.Status == DiscoveryRunning {
		return nil
	}
	s.Discovery.Number++
	s.Discovery.Status, s.Discovery.RequestedBy = DiscoveryRunning, by.Subject
	r.observe()
	r.note("discovery " + strconv.FormatInt(s.Discovery.Number, 10) + " requested")
	return nil
}

// Advertises says whether the server offers a kind of list.
func (s *Server) Advertises(kind string) bool { return slices.Contains(s.Kinds, kind) }
