package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	registryv1 "countersign/proto/countersign/registry/v1"
)

func newEventsCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "events", Short: "Who is told of changes, and what became of it",
		Long: `Who is told of changes, by signed webhooks, and what became of it. Types of events
and their schemas are at /asyncapi.json of the API.

  countersign events subscribe audit-log --url https://hooks.example/countersign --secret env:HOOK_SECRET
  countersign events test audit-log
  countersign events deliveries audit-log --state dead
  countersign events replay audit-log --dead
  countersign events watch

Where the installation sends all events to a bus as well, its name stands in place of
the subscription's, for the events of your tenant:

  countersign events replay installation.nats --dead`,
	}
	group(command)
	command.AddCommand(
		subscribeCommand(c), listSubscriptionsCommand(c), testSubscriptionCommand(c), deliveriesCommand(c), replayCommand(c),
		watchEventsCommand(c), unsubscribeCommand(c),
	)
	return command
}

type subscription = *registryv1.Subscription

var subscriptions = view[subscription]{plural: "subscriptions", name: subscription.GetSubscriptionId, columns: []column[subscription]{
	{title: "ID", text: subscription.GetSubscriptionId},
	{title: "DIRECTION", text: func(s subscription) string { return word(s.GetDirection()) }},
	{title: "URL", text: func(s subscription) string { return s.GetSpec().GetUrl() + s.GetReceivePath() }},
	{title: "TYPES", text: func(s subscription) string {
		if n := len(s.GetSpec().GetTypes()); n > 0 {
			return strconv.Itoa(n)
		}
		return "all"
	}},
	{title: "ENABLED", text: func(s subscription) string {
		if s.GetSpec().GetDisabled() {
			return "no"
		}
		return "yes"
	}},
	{title: "PENDING", text: func(s subscription) string { return strconv.Itoa(int(s.GetPending())) }},
	{title: "DEAD", text: func(s subscription) string { return strconv.Itoa(int(s.GetDead())) }},
	{title: "CREATED BY", wide: true, text: subscription.GetCreatedBy},
	{title: "DESCRIPTION", wide: true, text: func(s subscription) string { return cut(s.GetSpec().GetDescription(), 60) }},
}}

func subscribeCommand(c *cli) *cobra.Command {
	var (
		spec    registryv1.SubscriptionSpec
		receive bool
	)
	command := &cobra.Command{
		Use: "subscribe ID --url URL --secret REFERENCE", Short: "Have events sent to a webhook, or receive those of others",
		Long: `Has events sent to a webhook, or with --receive takes in those of others. The secret
is a reference; it signs what is sent, or verifies what is received. The same again
changes nothing.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			direction := registryv1.SubscriptionDirection_SUBSCRIPTION_DIRECTION_SEND
			if receive {
				direction = registryv1.SubscriptionDirection_SUBSCRIPTION_DIRECTION_RECEIVE
			}
			r, err := api.events.CreateSubscription(ctx, &registryv1.CreateSubscriptionRequest{SubscriptionId: args[0], Direction: direction, Spec: &spec})
			if err != nil {
				return err
			}
			if err := showRow(c, subscriptions, r.GetSubscription()); err != nil {
				return err
			}
			if !receive {
				c.nextf("countersign events test %s", args[0])
			}
			return nil
		}),
	}
	f := command.Flags()
	f.StringVar(&spec.Url, "url", "", "`URL` of the webhook")
	f.StringVar(&spec.Secret, "secret", "", "`REFERENCE` to the secret, such as env:NAME")
	f.StringVar(&spec.PreviousSecret, "previous-secret", "", "`REFERENCE` to another one that counts too, while secrets are rotated")
	f.StringVar(&spec.Description, "description", "", "what it is for")
	f.StringSliceVar(&spec.Types, "type", nil, "only events of this `TYPE`; may be repeated")
	f.StringSliceVar(&spec.Subjects, "subject", nil, "only events about this `ID` of a server, or kind/name; may be repeated")
	f.BoolVar(&receive, "receive", false, "take in events that others send")
	return command
}

func listSubscriptionsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List subscriptions", Args: cobra.NoArgs,
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, _ []string) error {
			r, err := api.events.ListSubscriptions(ctx, &registryv1.ListSubscriptionsRequest{})
			if err != nil {
				return err
			}
			if err := showList(c, subscriptions, r.GetSubscriptions()); err != nil {
				return err
			}
			for _, bus := range r.GetBuses() {
				c.notef("bus %s: %d pending, %d dead", bus.GetSink(), bus.GetPending(), bus.GetDead())
				if bus.GetDead() > 0 {
					c.nextf("countersign events deliveries %s --state dead", bus.GetSink())
				}
			}
			return nil
		}),
	}
}

func testSubscriptionCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test ID", Short: "Send an event to this subscription alone", Args: cobra.ExactArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			r, err := api.events.TestSubscription(ctx, &registryv1.TestSubscriptionRequest{SubscriptionId: args[0]})
			if err != nil {
				return err
			}
			c.notef("event %s is on its way", r.GetEventId())
			c.nextf("countersign events deliveries %s", args[0])
			return nil
		}),
	}
}

type delivery = *registryv1.Delivery

var deliveries = view[delivery]{plural: "deliveries", name: delivery.GetEventId, columns: []column[delivery]{
	{title: "QUEUED", text: func(d delivery) string { return when(d.GetCreateTime()) }},
	{title: "EVENT", text: delivery.GetEventId},
	{title: "TYPE", text: func(d delivery) string { return d.GetType()[strings.LastIndexByte(d.GetType(), '.')+1:] }},
	{title: "SUBJECT", text: delivery.GetSubject},
	{title: "STATE", text: func(d delivery) string { return word(d.GetState()) }},
	{title: "ATTEMPTS", text: func(d delivery) string { return strconv.Itoa(int(d.GetAttempts())) }},
	{title: "PROBLEM", text: func(d delivery) string { return cut(d.GetProblem(), 60) }},
	{title: "LAST", wide: true, text: func(d delivery) string { return when(d.GetLastAttemptTime()) }},
	{title: "SEQUENCE", wide: true, text: func(d delivery) string { return strconv.FormatInt(d.GetSequence(), 10) }},
}}

func deliveriesCommand(c *cli) *cobra.Command {
	var (
		pages paging
		state string
	)
	command := &cobra.Command{
		Use: "deliveries ID", Short: "List deliveries of a subscription, the latest first", Args: cobra.ExactArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			request := &registryv1.ListDeliveriesRequest{SubscriptionId: args[0]}
			if state != "" {
				n, known := registryv1.DeliveryState_value["DELIVERY_STATE_"+strings.ToUpper(state)]
				if !known || n == 0 {
					return usagef("--state %q: one of pending, delivered and dead is needed", state)
				}
				request.State = registryv1.DeliveryState(n)
			}
			all, err := collect(ctx, c, &pages, func(ctx context.Context, size int32, token string) (page[delivery], error) {
				request.PageSize, request.PageToken = size, token
				r, err := api.events.ListDeliveries(ctx, request)
				return page[delivery]{r.GetDeliveries(), r.GetNextPageToken(), 0}, err
			})
			if err != nil {
				return err
			}
			return showList(c, deliveries, all)
		}),
	}
	command.Flags().StringVar(&state, "state", "", "only those that are `STATE`: pending, delivered or dead")
	pages.addFlags(command.Flags())
	return command
}

func replayCommand(c *cli) *cobra.Command {
	var (
		dead  bool
		since string
	)
	command := &cobra.Command{
		Use: "replay ID [EVENT…] | --dead | --since TIME", Short: "Deliver events again, at most 1,000 at a time", Args: cobra.MinimumNArgs(1),
		RunE: c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
			from, err := at("--since", since)
			if err != nil {
				return err
			}
			r, err := api.events.ReplayEvents(ctx, &registryv1.ReplayEventsRequest{SubscriptionId: args[0], EventIds: args[1:], Dead: dead, Since: from})
			if err != nil {
				return err
			}
			c.notef("%s sent again", counted(r.GetEvents(), "event"))
			if r.GetMore() {
				c.notef("there are more: replay again when these are through")
			}
			return nil
		}),
	}
	command.Flags().BoolVar(&dead, "dead", false, "what was given up")
	command.Flags().StringVar(&since, "since", "", "what happened from this `TIME` on: 2030-01-02T15:04:05Z, or how long ago, such as 24h or 7d")
	return command
}

func watchEventsCommand(c *cli) *cobra.Command {
	var request registryv1.WatchEventsRequest
	command := &cobra.Command{
		Use: "watch", Short: "Show events as they happen, one JSON object a line, until interrupted", Args: cobra.NoArgs,
		Long: `Shows events as they happen, one JSON object a line, until interrupted. When the
connection is lost the command goes on where it was.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			for {
				err := c.follow(cmd.Context(), api, &request)
				if cmd.Context().Err() != nil {
					return nil //nolint:nilerr // interrupted, which is how it ends
				}
				if connect.CodeOf(err) != connect.CodeUnavailable || request.GetResumeToken() == "" {
					return err
				}
				select {
				case <-time.After(time.Second):
				case <-cmd.Context().Done():
				}
			}
		},
	}
	f := command.Flags()
	f.StringSliceVar(&request.Types, "type", nil, "only events of this `TYPE`; may be repeated")
	f.StringSliceVar(&request.Subjects, "subject", nil, "only events about this `ID` of a server, or kind/name; may be repeated")
	f.BoolVar(&request.FromBeginning, "from-beginning", false, "begin with the oldest event that is kept")
	return command
}

// follow shows events until the stream ends, and notes where to go on.
func (c *cli) follow(ctx context.Context, api *api, request *registryv1.WatchEventsRequest) error {
	stream, err := api.events.WatchEvents(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it is over
	out := json.NewEncoder(c.stdout)
	out.SetEscapeHTML(false)
	for stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			line := struct {
				ID       string          `json:"id"`
				Type     string          `json:"type"`
				Subject  string          `json:"subject"`
				Sequence int64           `json:"sequence"`
				Time     time.Time       `json:"time"`
				Data     json.RawMessage `json:"data"`
			}{e.GetEventId(), e.GetType(), e.GetSubject(), e.GetSequence(), e.GetTime().AsTime(), json.RawMessage(e.GetData())}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		request.ResumeToken = stream.Msg().GetResumeToken()
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the stream ended"))
}

func unsubscribeCommand(c *cli) *cobra.Command {
	var dryRun bool
	command := &cobra.Command{
		Use: "unsubscribe ID", Short: "Delete a subscription, with its deliveries", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !dryRun {
				if err := c.confirm(cmd.Context(), "Delete subscription "+args[0]+" and its deliveries?"); err != nil {
					return err
				}
			}
			return c.call(callTimeout, func(ctx context.Context, api *api, args []string) error {
				r, err := api.events.DeleteSubscription(ctx, &registryv1.DeleteSubscriptionRequest{SubscriptionId: args[0], DryRun: dryRun})
				switch {
				case err != nil:
					return err
				case dryRun:
					c.notef("subscription %s would be deleted, with its log, %d not delivered yet and %s", args[0], r.GetSubscription().GetPending(), counted(r.GetSubscription().GetDead(), "dead letter"))
				default:
					c.notef("subscription %s is deleted", args[0])
				}
				return nil
			})(cmd, args)
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would go with it")
	return command
}
