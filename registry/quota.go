package registry

// Quotas bound what one tenant may have in the database, so that none leaves
// too little for the others. Zero is no bound. What is there already stays
// when a quota is lowered; only growth is refused, with quota_exceeded.
type Quotas struct {
	Servers         int64 // that are not retired
	Tools           int64 // of servers that are not retired, whether they are offered now or not
	Connections     int64 // that have names and are not deleted
	DefinitionBytes int64 // of the definitions of tools, resources and prompts, each distinct one once, until it is pruned
}
