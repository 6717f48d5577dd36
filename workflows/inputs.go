package workflows

import "countersign/activities"

// The inputs and answers of updates, signals and tests, named here for callers
// that may not know the activities.
//
//nolint:revive // each is documented where it is declared
type (
	RegisterInput        = activities.RegisterInput
	RegisterOutput       = activities.RegisterOutput
	DecideInput          = activities.DecideInput
	EditInput            = activities.EditInput
	SetEnabledInput      = activities.SetEnabledInput
	RequireApprovalInput = activities.RequireApprovalInput
	RetireInput          = activities.RetireInput
	BeginDiscoveryInput  = activities.BeginDiscoveryInput
	EditConnectionInput  = activities.EditConnectionInput
	ConnectionOutput     = activities.ConnectionOutput
	TestInput            = activities.TestInput
	TestReport           = activities.TestReport
	TestStep             = activities.TestStep

	SaveProviderInput  = activities.SaveProviderInput
	ProviderOutput     = activities.ProviderOutput
	BeginRefreshInput  = activities.BeginRefreshInput
	TestProviderInput  = activities.TestProviderInput
	ProviderTestReport = activities.ProviderTestReport
	ProviderServerTest = activities.ProviderServerTest
)
