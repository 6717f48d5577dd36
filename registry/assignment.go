package registry

import (
	"regexp"
	"time"
)

// Assignment gives an agent a tool by its canonical id, in one workspace or
// everywhere (R65, C24). It outlives that the tool is away, and the server
// itself: who takes its name and is approved is what the id means then.
type Assignment struct {
	TenantID     string    `json:"tenantId" bun:"tenant_id,pk"`
	AssignmentID string    `json:"assignmentId" bun:"assignment_id"`
	Agent        string    `json:"agent" bun:"agent,pk"`
	ToolID       string    `json:"toolId" bun:"tool_id"`
	Workspace    string    `json:"workspace" bun:"workspace,pk"` // empty: everywhere
	CreatedAt    time.Time `json:"createdAt" bun:"created_at"`
	CreatedBy    string    `json:"createdBy" bun:"created_by"`
}

var (
	agents     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$`)
	workspaces = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._/-]{0,127})?$`)
)

// NewAssignment checks and names an assignment. Its id follows from what it
// says, so that the same one is the same row.
func NewAssignment(tenant, agent, toolID, workspace string) (Assignment, error) {
	bad := Errorf(ReasonInvalidArgument, "the assignment is not valid")
	if !agents.MatchString(agent) {
		bad.WithField("agent", "is 1 to 128 letters, digits and . _ : @ / -, and begins with a letter or digit")
	}
	if !workspaces.MatchString(workspace) {
		bad.WithField("workspace", "is up to 128 letters, digits and . _ / -, and begins with a letter or digit")
	}
	if toolID == "" {
		bad.WithField("tool_id", "is required")
	}
	if len(bad.Fields) > 0 {
		return Assignment{}, bad
	}
	id := "asg_" + digestJSON([]string{tenant, agent, toolID, workspace})[len("sha256:"):][:32]
	return Assignment{TenantID: tenant, AssignmentID: id, Agent: agent, ToolID: toolID, Workspace: workspace}, nil
}
