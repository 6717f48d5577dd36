package workflows

import "countersign/activities"

// The inputs of updates and signals, named here for callers.
type (
	RegisterInput       = activities.RegisterInput
	RegisterOutput      = activities.RegisterOutput
	DecideInput         = activities.DecideInput
	EditInput           = activities.EditInput
	SetEnabledInput     = activities.SetEnabledInput
	RetireInput         = activities.RetireInput
	BeginDiscoveryInput = activities.BeginDiscoveryInput
	TestInput           = activities.TestInput
	TestReport          = activities.TestReport
	TestStep            = activities.TestStep
)
