package main

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func renewExceptionCommand(c *cli) *cobra.Command {
	var expires, comment string
	command := &cobra.Command{
		Use: "renew-exception NAME --expires TIME --comment TEXT", Short: "Let a server be used without authentication for longer",
		Long: `Lets a server be used without authentication until --expires from now, without a
new review: what is approved stays so. Needs the role of a platform administrator.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			period, err := parsePeriod(expires)
			if err != nil || period <= 0 {
				return usagef("--expires %q: a time from now is needed, such as 720h or 30d", expires)
			}
			if comment == "" {
				return usagef("--comment TEXT is required: why it may go on without authentication")
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			r, err := api.approvals.RenewException(ctx, &registryv1.RenewExceptionRequest{
				ServerId: args[0], ExpireTime: timestamppb.New(c.now().Add(period)), Comment: comment,
			})
			if err != nil {
				return err
			}
			return c.showServer(r.GetServer())
		},
	}
	command.Flags().StringVar(&expires, "expires", "", "`TIME` from now, such as 720h or 30d")
	command.Flags().StringVar(&comment, "comment", "", "`TEXT`: why")
	return command
}

func decisionTokenCommand(c *cli) *cobra.Command {
	var digest, ttl string
	command := &cobra.Command{
		Use: "decision-token NAME approve|reject|approve-launch", Short: "Get a token by which one decision can come as a Temporal signal",
		Long: `Prints a token by which one decision about what is under review now can come as a
Temporal signal, once, in the name of whoever asks. It is printed once and kept
nowhere: who has it can take the decision.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			decision, err := parseWord[registryv1.TokenDecision]("decision", strings.ReplaceAll(args[1], "-", "_"))
			if err != nil {
				return err
			}
			request := &registryv1.MintDecisionTokenRequest{ServerId: args[0], Decision: decision, Digest: digest}
			if ttl != "" {
				period, err := parsePeriod(ttl)
				if err != nil || period <= 0 {
					return usagef("--ttl %q: a time is needed, such as 1h or 7d", ttl)
				}
				request.Ttl = durationpb.New(period)
			}
			ctx, cancel := c.within(cmd.Context(), callTimeout)
			defer cancel()
			api, err := c.connect()
			if err != nil {
				return err
			}
			if digest == "" {
				s, err := api.getServer(ctx, args[0])
				if err != nil {
					return err
				}
				request.Digest = s.GetReview().GetDigest()
				if decision == registryv1.TokenDecision_TOKEN_DECISION_APPROVE_LAUNCH {
					request.Digest = s.GetTargetDigest()
				}
				if request.GetDigest() == "" {
					return usagef("nothing of server %s is under review; --digest says what the decision is about", s.GetName())
				}
			}
			r, err := api.approvals.MintDecisionToken(ctx, request)
			if err != nil {
				return err
			}
			if err := c.show(r, []string{r.GetToken()}, func(s *sheet) { s.linef("%s", r.GetToken()) }); err != nil {
				return err
			}
			c.notef("good until %s, for digest %s", when(r.GetExpireTime()), request.GetDigest())
			return nil
		},
	}
	command.Flags().StringVar(&digest, "digest", "", "`DIGEST` that the decision is about (default: what is under review now)")
	command.Flags().StringVar(&ttl, "ttl", "", "how long it is good, such as 1h or 7d (default a day)")
	return command
}
