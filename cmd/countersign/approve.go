package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
	"countersign/registry"
)

// wish is what the flags of approve say.
type wish struct {
	all       bool
	tools     []string // NAME[=CLASS]
	class     string
	noEnable  bool
	resources []string // URI[=CLASSIFICATION]
	prompts   []string // NAME=TARGET
	empty     bool
	same      string // who approved what is to be approved; anyone: the one who did
	digest    string
	expires   string
	comment   string
}

func approveCommand(c *cli) *cobra.Command {
	var w wish
	var wait waiting
	command := &cobra.Command{
		Use:   "approve NAME (--all | --tool NAME[=CLASS]... | --same) [--class CLASS]",
		Short: "Approve exactly what a server offers now, and activate it",
		Long: `Approves exactly what it shows and binds it as it is now: a tool that changes
afterwards is no longer callable. It shows the target, every tool with all that
its server says of it, and the digest of the whole, asks, and sends that digest.

Every tool needs a side-effect class, which people declare: read, sandbox,
shared_write or publication. Approved tools are enabled unless --no-enable is
given. --all takes every tool but those in quarantine; resources and prompts are
approved only when they are named.

A server without authentication is approved until --exception-expires, 720h from
now when nothing is said.

Where a policy wants several people, their approvals count together when they
approve the same lines: --same approves what somebody approved before in this
review, after it has shown it.`,
		Example: `  countersign server approve demo --all --class read
  countersign server approve files --tool list=read --tool delete=shared_write --resource file:///handbook=public
  countersign server approve files --same`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			if err := wait.check(); err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			p, err := c.propose(cmd.Context(), api, args[0], &w)
			if err != nil {
				return err
			}
			if !c.quiet || !c.yes {
				s := &sheet{marks: true}
				p.show(s)
				if _, err := c.stderr.Write(s.bytes()); err != nil {
					return err
				}
			}
			if err := c.confirm(cmd.Context(), p.question()); err != nil {
				return err
			}
			ctx, cancel := c.within(cmd.Context(), wait.usual())
			defer cancel()
			response, err := api.servers.ActivateMcpServer(ctx, p.request)
			if err != nil {
				return err
			}
			return c.showApproved(ctx, api, p, response.GetServer(), wait)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&w.all, "all", false, "every tool that the server offers, but those in quarantine")
	flags.StringArrayVar(&w.tools, "tool", nil, "`NAME[=CLASS]` of a tool; may be repeated")
	flags.StringVar(&w.class, "class", "", "`CLASS` of the tools for which --tool says none: "+classWords())
	flags.BoolVar(&w.noEnable, "no-enable", false, "do not enable the tools")
	flags.StringArrayVar(&w.resources, "resource", nil, "`URI[=CLASSIFICATION]` of a resource (default "+registry.DefaultClassification+"); may be repeated")
	flags.StringArrayVar(&w.prompts, "prompt", nil, "`NAME=TARGET` of a prompt, with skill:ID or step:REF as target; may be repeated")
	flags.BoolVar(&w.empty, "empty", false, "activate the server with nothing bound")
	flags.StringVar(&w.same, "same", "", "exactly what was approved before in this review, by the only one who did or by `SUBJECT`")
	flags.Lookup("same").NoOptDefVal = anyone
	flags.StringVar(&w.digest, "digest", "", "approve only if this `DIGEST` is under review")
	flags.StringVar(&w.expires, "exception-expires", "", "how long the server may be used without authentication, such as 720h or 30d")
	flags.StringVar(&w.comment, "comment", "", "`TEXT`: why")
	completeWords(command, "class", words[registryv1.SideEffectClass]())
	wait.addFlag(command)
	return command
}

// check refuses flags that contradict each other.
func (w *wish) check() error {
	something := w.all || len(w.tools)+len(w.resources)+len(w.prompts) > 0
	switch {
	case w.same != "" && (something || w.empty || w.class != "" || w.noEnable || w.expires != ""):
		return usagef("--same approves what was approved before, so it excludes all that says what to approve")
	case w.same != "":
		return nil
	case w.empty && something:
		return usagef("--empty approves nothing, so it excludes --all, --tool, --resource and --prompt")
	case !w.empty && !something:
		return usagef("nothing to approve: give --all, --tool, --resource or --prompt, --same for what was approved before, or --empty to activate the server with nothing bound")
	case w.class != "" && !isClass(w.class):
		return usagef("--class %q: there is %s", w.class, classWords())
	}
	return nil
}

// propose reads what is under review and makes the request of it.
func (c *cli) propose(ctx context.Context, a *api, name string, w *wish) (*proposal, error) {
	ctx, cancel := c.within(ctx, reviewTimeout)
	defer cancel()
	s, err := a.getServer(ctx, name)
	if err != nil {
		return nil, err
	}
	if w.digest == "" && s.GetReview().GetDigest() == "" {
		return nil, nothingToReview(s.GetName())
	}
	review, err := readReview(ctx, a, s.GetServerId(), true)
	if err != nil {
		return nil, err
	}
	if s.GetReview().GetDigest() != review.GetReview().GetDigest() {
		return nil, failf(registry.ReasonSuperseded, "server %s changed while it was read", s.GetName()).withNext("try again")
	}
	votes := review.GetReview().GetVotes()
	if w.same == "" {
		p, err := newProposal(s, review, w, c.now())
		if err != nil || len(votes) == 0 || w.expires != "" || p.request.GetExceptionExpireTime() == nil {
			return p, err
		}
		// Who says nothing of the end means that of those before: else no two would ever be the same.
		before, err := c.readApproval(ctx, a, s, votes[0].GetDecisionId())
		if err != nil {
			return nil, err
		}
		p.end(before.GetExceptionExpireTime(), c.now())
		return p, nil
	}
	vote, err := w.voteOf(s, votes)
	if err != nil {
		return nil, err
	}
	before, err := c.readApproval(ctx, a, s, vote.GetDecisionId())
	if err != nil {
		return nil, err
	}
	return sameProposal(s, review, before, w, c.now())
}

func (c *cli) showApproved(ctx context.Context, a *api, p *proposal, s server, wait waiting) error {
	s, err := c.await(ctx, a, s, wait)
	if shown := showRow(c, servers, s); shown != nil || err != nil {
		return errors.Join(err, shown)
	}
	if r := s.GetReview(); r.GetStatus() == reviewPending && r.GetStanding() != "" {
		c.notef("not enough yet: %s; they approve the same lines of digest %s", r.GetStanding(), r.GetDigest())
		if others := otherLines(r); len(others) > 0 {
			c.notef("note: %s approved other lines, which do not count together with these", strings.Join(others, ", "))
		}
		c.nextf("somebody else: countersign server approve %s --same", s.GetName())
		return nil
	}
	if len(p.tools) > 0 {
		c.nextf("countersign tools resolve %s", p.tools[0].GetToolId())
	} else {
		c.nextf("%s", nextCommand(s))
	}
	return nil
}
