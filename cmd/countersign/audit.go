package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

func newAuditCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "audit", Short: "The audit trail: who did what, and whether it is whole",
		Long: `The audit trail: who did what to which object, and what came of it. It is sealed
in a chain of hashes with signed checkpoints, so that what is changed, removed or
cut is found. The roles Auditor and PlatformAdmin read it.

  countersign audit list --object demo
  countersign audit export >audit.jsonl
  countersign audit verify                          # asks the API
  countersign audit verify audit.jsonl --key KEY    # asks nobody`,
	}
	group(command)
	command.AddCommand(listAuditCommand(c), showAuditCommand(c), exportAuditCommand(c), verifyAuditCommand(c), checkpointsCommand(c), auditKeysCommand(c))
	return command
}

type auditEvent = *registryv1.AuditEvent

var auditEvents = view[auditEvent]{plural: "audit events", name: auditEvent.GetAuditId, columns: []column[auditEvent]{
	{title: "TIME", text: func(e auditEvent) string { return when(e.GetTime()) }},
	{title: "BY", text: auditEvent.GetActor},
	{title: "ACTION", text: auditEvent.GetAction},
	{title: "OBJECT", text: func(e auditEvent) string {
		if e.GetObjectName() != "" {
			return e.GetObjectKind() + " " + e.GetObjectName()
		}
		return e.GetObjectKind() + " " + e.GetObjectId()
	}},
	{title: "OUTCOME", text: func(e auditEvent) string { return some(": ", e.GetOutcome(), e.GetReason()) }},
	{title: "NOTE", text: func(e auditEvent) string { return cut(e.GetNote(), 60) }},
	{title: "POSITION", wide: true, text: func(e auditEvent) string { return strconv.FormatInt(e.GetPosition(), 10) }},
	{title: "OBJECT ID", wide: true, text: auditEvent.GetObjectId},
	{title: "ORIGIN", wide: true, text: auditEvent.GetOrigin},
	{title: "ID", wide: true, text: auditEvent.GetAuditId},
}}

// auditChoice is which events are wanted.
type auditChoice struct{ filter, object, since, until string }

func (a *auditChoice) addFlags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&a.filter, "filter", "", "`FILTER`, such as 'actor = \"ann\" AND outcome = refused'; also of action, reason, origin, object_kind, object_id, object_name, operation_id")
	f.StringVar(&a.object, "object", "", "events of this object: its `ID` or a name that it had")
	f.StringVar(&a.since, "since", "", "not before this `TIME`: 2030-01-02T15:04:05Z, or how long ago, such as 24h or 7d")
	f.StringVar(&a.until, "until", "", "before this `TIME`")
}

// at reads a time: a moment, or how long ago.
func at(flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no time is wanted
	}
	if moment, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return timestamppb.New(moment), nil
	}
	period, err := parsePeriod(text)
	if err != nil || period < 0 {
		return nil, usagef("%s %q: a time is needed, such as 2030-01-02T15:04:05Z, 24h or 7d", flag, text)
	}
	return timestamppb.New(time.Now().Add(-period)), nil
}

func (a *auditChoice) times() (since, until *timestamppb.Timestamp, err error) {
	if since, err = at("--since", a.since); err == nil {
		until, err = at("--until", a.until)
	}
	return since, until, err
}

func listAuditCommand(c *cli) *cobra.Command {
	var (
		pages  paging
		choice auditChoice
		oldest bool
	)
	command := &cobra.Command{
		Use: "list", Short: "List what was done and what was refused, the latest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, until, err := choice.times()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			request := &registryv1.ListAuditEventsRequest{Filter: choice.filter, Object: choice.object, StartTime: since, EndTime: until}
			if oldest {
				request.OrderBy = "time"
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[auditEvent], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.audit.ListAuditEvents(ctx, request)
				return page[auditEvent]{r.GetEvents(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, auditEvents, all)
		},
	}
	choice.addFlags(command)
	command.Flags().BoolVar(&oldest, "oldest", false, "the oldest first")
	pages.addFlags(command.Flags())
	return command
}

func showAuditCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Aliases: []string{"get"}, Short: "Show an audit event", Args: cobra.ExactArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.audit.GetAuditEvent(ctx, &registryv1.GetAuditEventRequest{AuditId: args[0]})
			if err != nil {
				return err
			}
			e := r.GetEvent()
			document, err := encode(e)
			if err != nil {
				return err
			}
			return c.show(document, []string{e.GetAuditId()}, func(s *sheet) {
				for _, column := range auditEvents.columns {
					if column.title != "NOTE" {
						s.field(column.title, column.text(e))
					}
				}
				s.field("NOTE", e.GetNote())
				s.field("DETAIL", e.GetDetail())
				s.field("VERSIONS", strconv.FormatInt(e.GetVersionBefore(), 10)+" to "+strconv.FormatInt(e.GetVersionAfter(), 10))
				s.field("DIGESTS", some(" to ", e.GetDigestBefore(), e.GetDigestAfter()))
				s.field("OPERATION", e.GetOperationId())
				s.field("HASH", e.GetHash())
				s.field("BEHIND", e.GetPrevHash())
			})
		}),
	}
}

func exportAuditCommand(c *cli) *cobra.Command {
	var (
		choice auditChoice
		asCSV  bool
		after  int64
		file   string
	)
	command := &cobra.Command{
		Use: "export", Short: "Write the sealed audit trail as JSONL, which verifies by itself, or CSV", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			since, until, err := choice.times()
			if err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), time.Hour)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			out := c.stdout
			if file != "" {
				f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
				if err != nil {
					return usagef("%s cannot be written: %s", file, err)
				}
				defer func() {
					if closed := f.Close(); err == nil {
						err = closed
					}
				}()
				out = f
			}
			request := &registryv1.ExportAuditEventsRequest{
				Filter: choice.filter, Object: choice.object, StartTime: since, EndTime: until, AfterPosition: after, Format: registryv1.AuditFormat_AUDIT_FORMAT_JSONL,
			}
			if asCSV {
				request.Format = registryv1.AuditFormat_AUDIT_FORMAT_CSV
			}
			for {
				r, err := api.audit.ExportAuditEvents(ctx, request)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(out, r.GetData()); err != nil {
					return err
				}
				if request.PageToken = r.GetNextPageToken(); request.GetPageToken() != "" {
					continue
				}
				if r.GetUnsealed() > 0 {
					c.notef("%d events are not sealed yet and not in it; again in some seconds", r.GetUnsealed())
				}
				return nil
			}
		},
	}
	choice.addFlags(command)
	f := command.Flags()
	f.BoolVar(&asCSV, "csv", false, "as CSV, for spreadsheets")
	f.Int64Var(&after, "after", 0, "only what is behind this `POSITION` of the chain")
	f.StringVar(&file, "file", "", "write to this `FILE` instead of standard output")
	return command
}

// verified is the result of a verification, by us or by the API.
type verified struct {
	Sound         bool                  `json:"sound"`
	Partial       bool                  `json:"partial,omitempty"`
	Events        int64                 `json:"events"`
	Checkpoints   int64                 `json:"checkpoints"`
	SignedThrough int64                 `json:"signed_through"`
	Unsealed      int64                 `json:"unsealed"`
	LastPosition  int64                 `json:"last_position"`
	LastHash      string                `json:"last_hash"`
	Faults        []registry.AuditFault `json:"faults"`
	MoreFaults    int64                 `json:"more_faults,omitempty"`
	Keys          int                   `json:"keys"`
}

func verifyAuditCommand(c *cli) *cobra.Command {
	var keys, kept []string
	command := &cobra.Command{
		Use: "verify [FILE]", Short: "Say whether the audit trail is whole, and where it is not", Args: cobra.MaximumNArgs(1),
		Long: `Says whether the audit trail is whole and agrees with its checkpoints, and names
the place of each fault. Without a file the API looks at the database; with one, an
export as JSONL ("-": standard input), nobody is asked: give the public keys by
--key, as "countersign audit keys" prints them. Checkpoints that you kept elsewhere
(lines of exports, or of "audit checkpoints -o jsonl") show what was cut since.

Ends with 7 when something is wrong.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, err := keptLines(kept)
			if err != nil {
				return err
			}
			var v verified
			if len(args) > 0 {
				v, err = c.verifyFile(args[0], keys, lines)
			} else {
				v, err = c.verifyServer(cmd.Context(), keys, lines)
			}
			if err != nil {
				return err
			}
			return c.showVerified(v)
		},
	}
	f := command.Flags()
	f.StringArrayVar(&keys, "key", nil, "public `KEY` of checkpoints, in base64, with a file; may be repeated")
	f.StringArrayVar(&kept, "checkpoints", nil, "`FILE` of checkpoints that were kept elsewhere; may be repeated")
	return command
}

// keptLines reads checkpoints from exports and from lists of them.
func keptLines(files []string) (out [][]byte, err error) {
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, usagef("%s cannot be read: %s", name, err)
		}
		before := len(out)
		for line := range bytes.Lines(raw) {
			line = bytes.TrimSpace(line)
			if listed := lineOf(line); listed != "" {
				line = []byte(listed)
			}
			if _, ok := registry.ParseAuditCheckpoint(line); ok {
				out = append(out, bytes.Clone(line))
			}
		}
		if len(out) == before {
			return nil, usagef("%s has no checkpoints", name)
		}
	}
	return out, nil
}

func (c *cli) verifyFile(name string, keys []string, kept [][]byte) (verified, error) {
	var public []registry.AuditPublicKey
	for _, text := range keys {
		k, err := registry.ParseAuditPublicKey(text)
		if err != nil {
			return verified{}, usagef("--key: %s", err)
		}
		public = append(public, k)
	}
	in := c.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return verified{}, usagef("%s cannot be read: %s", name, err)
		}
		defer f.Close()
		in = f
	}
	file := registry.NewAuditFile(public...)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		file.Line(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		return verified{}, usagef("%s cannot be read: %s", name, err)
	}
	for _, line := range kept {
		file.Kept(line)
	}
	r := file.End()
	return verified{
		Sound: r.Sound(), Partial: r.Partial, Events: r.Rows, Checkpoints: r.Checkpoints, SignedThrough: r.Signed, Unsealed: r.Unsealed,
		LastPosition: r.Last.Position, LastHash: r.Last.Hash, Faults: r.Faults, MoreFaults: r.More, Keys: len(public),
	}, nil
}

func (c *cli) verifyServer(ctx context.Context, keys []string, kept [][]byte) (v verified, err error) {
	if len(keys) > 0 {
		return v, usagef("--key is for files; the API goes by the keys of its configuration")
	}
	ctx, cancel := c.within(ctx, time.Hour)
	defer cancel()
	api, err := c.connect()
	if err != nil {
		return v, err
	}
	request := &registryv1.VerifyAuditRequest{}
	for _, line := range kept {
		request.Checkpoints = append(request.Checkpoints, string(line))
	}
	v.Sound = true
	for {
		r, err := api.audit.VerifyAudit(ctx, request)
		if err != nil {
			return v, err
		}
		v.Sound = v.Sound && r.GetSound()
		v.Events += r.GetEvents()
		v.Checkpoints += r.GetCheckpoints()
		v.SignedThrough = max(v.SignedThrough, r.GetSignedThrough())
		v.Unsealed, v.LastPosition, v.LastHash, v.Keys = r.GetUnsealed(), r.GetLastPosition(), r.GetLastHash(), len(r.GetKeyIds())
		v.MoreFaults += r.GetMoreFaults()
		for _, f := range r.GetFaults() {
			v.Faults = append(v.Faults, registry.AuditFault{
				Kind: registry.AuditFaultKind(f.GetKind()), Position: f.GetPosition(), Through: f.GetThrough(), AuditID: f.GetAuditId(),
				Checkpoint: f.GetCheckpoint(), Detail: f.GetDetail(),
			})
		}
		if !r.GetMore() {
			return v, nil
		}
		request.AfterPosition, request.AfterHash = r.GetLastPosition(), r.GetLastHash()
	}
}

func (c *cli) showVerified(v verified) error {
	var kinds []string
	for _, f := range v.Faults {
		kinds = append(kinds, string(f.Kind))
	}
	err := c.show(v, kinds, func(s *sheet) {
		for _, f := range v.Faults {
			s.linef("%s: %s", some(" ", string(f.Kind), placeOf(f)), f.Detail)
		}
		if v.MoreFaults > 0 {
			s.linef("and %d more", v.MoreFaults)
		}
		s.linef("%d events and %d checkpoints; signed through position %d, the last is %d", v.Events, v.Checkpoints, v.SignedThrough, v.LastPosition)
		if v.Sound {
			s.linef("nothing is wrong")
		}
	})
	if err != nil {
		return err
	}
	if v.Keys == 0 {
		c.notef("no public key is known, so no signature was checked")
	}
	if v.Partial {
		c.notef("the export is filtered: each event was looked at by itself, and what is not in it may be missing")
	}
	if v.Unsealed > 0 {
		c.notef("%d events are not sealed yet", v.Unsealed)
	}
	if !v.Sound {
		return &failure{Exit: exitFindings, silent: true, Message: "the audit trail is not what was sealed"}
	}
	return nil
}

// placeOf says where a fault is.
func placeOf(f registry.AuditFault) string {
	var out string
	if f.Position > 0 {
		out = "at position " + strconv.FormatInt(f.Position, 10)
	}
	if f.Through > f.Position {
		out += " to " + strconv.FormatInt(f.Through, 10)
	}
	if f.Checkpoint > 0 {
		out = some(" ", out, "checkpoint "+strconv.FormatInt(f.Checkpoint, 10))
	}
	if f.Line > 0 {
		out = some(" ", out, "line "+strconv.Itoa(f.Line))
	}
	return out
}

type auditCheckpoint = *registryv1.AuditCheckpoint

var auditCheckpoints = view[auditCheckpoint]{
	plural: "checkpoints", name: func(k auditCheckpoint) string { return strconv.FormatInt(k.GetNumber(), 10) },
	columns: []column[auditCheckpoint]{
		{title: "NUMBER", text: func(k auditCheckpoint) string { return strconv.FormatInt(k.GetNumber(), 10) }},
		{title: "TIME", text: func(k auditCheckpoint) string { return when(k.GetTime()) }},
		{title: "EVENTS", text: func(k auditCheckpoint) string { return strconv.FormatInt(k.GetCount(), 10) }},
		{title: "KEY", text: auditCheckpoint.GetKeyId},
		{title: "HEAD", text: auditCheckpoint.GetHead},
	},
}

func checkpointsCommand(c *cli) *cobra.Command {
	var pages paging
	command := &cobra.Command{
		Use: "checkpoints", Short: "List the signed checkpoints, the latest first; -o jsonl keeps them for verify", Args: cobra.NoArgs,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[auditCheckpoint], error) {
				r, err := api.audit.ListAuditCheckpoints(ctx, &registryv1.ListAuditCheckpointsRequest{PageSize: size, PageToken: token})
				return page[auditCheckpoint]{r.GetCheckpoints(), r.GetNextPageToken(), r.GetTotalSize()}, err
			})
			if err != nil {
				return err
			}
			return showList(c, auditCheckpoints, all)
		}),
	}
	pages.addFlags(command.Flags())
	return command
}

type auditKey = *registryv1.AuditKey

var auditKeys = view[auditKey]{plural: "keys", name: auditKey.GetKeyId, columns: []column[auditKey]{
	{title: "KEY", text: auditKey.GetKeyId},
	{title: "SIGNS NOW", text: func(k auditKey) string { return yesNo(k.GetCurrent()) }},
	{title: "PUBLIC", text: auditKey.GetPublicKey},
}}

func auditKeysCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "keys", Short: "List the public keys that checkpoints are checked with", Args: cobra.NoArgs,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			r, err := api.audit.GetAuditKeys(ctx, &registryv1.GetAuditKeysRequest{})
			if err != nil {
				return err
			}
			return showList(c, auditKeys, r.GetKeys())
		}),
	}
}

// lineOf gives the checkpoint in a line of "audit checkpoints -o jsonl"; empty
// when it is no such line.
func lineOf(raw []byte) string {
	var listed struct {
		Line string `json:"line"`
	}
	if json.Unmarshal(raw, &listed) != nil {
		return ""
	}
	return listed.Line
}
