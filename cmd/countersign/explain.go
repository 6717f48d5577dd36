package main

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// explaining is what a resolve is to tell besides yes or no.
type explaining struct {
	asked bool
	at    string // empty: now
}

type condition = *registryv1.ResolveCondition

var conditionColumns = []column[condition]{
	{title: "HOLDS", text: func(i condition) string { return yesNo(i.GetHolds()) }},
	{title: "CONDITION", text: condition.GetValue},
	{title: "SINCE", text: func(i condition) string {
		if i.GetSinceTime() == nil {
			return "not recorded"
		}
		return i.GetSinceTime().AsTime().UTC().Format(time.RFC3339)
	}},
	{title: "WHO CAN CHANGE IT", text: func(i condition) string {
		if len(i.GetRoles()) == 0 {
			return "nobody"
		}
		return strings.Join(i.GetRoles(), ", ")
	}},
	{title: "ELSE DENIED AS", text: condition.GetReason},
}

// explain shows every condition of one tool, now or at a time in the past.
func (c *cli) explainTool(ctx context.Context, a *api, ids []string, by caller, at string) (callable bool, err error) {
	if len(ids) != 1 {
		return false, usagef("one tool is explained at a time")
	}
	request := &registryv1.ExplainToolRequest{ToolId: ids[0], Agent: by.agent, Workspace: by.workspace}
	if at != "" {
		when, err := pastTime(at, time.Now())
		if err != nil {
			return false, err
		}
		request.At = timestamppb.New(when)
	}
	r, err := a.registry.ExplainTool(ctx, request)
	if err != nil {
		return false, err
	}
	return r.GetCallable(), c.show(r, ids, func(s *sheet) {
		s.field("Tool", r.GetToolId())
		s.field("As of", r.GetAt().AsTime().UTC().Format(time.RFC3339))
		s.field("Callable", yesNo(r.GetCallable()))
		s.field("Reason", some(": ", r.GetReason(), r.GetMessage()))
		s.field("Next step", r.GetNextStep())
		s.gap()
		writeTable(s, conditionColumns, r.GetConditions())
		for _, i := range r.GetConditions() {
			if !i.GetHolds() && i.GetNextStep() != "" {
				s.linef("%s: %s", i.GetReason(), i.GetNextStep())
			}
		}
	})
}

// pastTime reads a time in the past: a moment, or how long ago.
func pastTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("--at: %q is neither a time, such as 2026-05-01T12:00:00Z, nor how long ago, such as 2h", text)
	}
	return when, nil
}

// notCallable ends a command that was to fail when a tool may not be called.
func notCallable(err error, fails bool) error {
	if err == nil && fails {
		return &failure{Exit: exitFindings, Message: "not callable", silent: true}
	}
	return err
}
