// Package secrets turns references into secret values and keeps those values out
// of whatever people, databases and histories get to see.
//
// Configuration and requests hold references, such as env:GITHUB_TOKEN or
// file:github/token; [registry.ParseSecretRef] judges them without looking anything up. (A
// variable of a process may also hold what is no secret: [CheckVariable].) A
// [Resolver] gives the [Value] of a reference for one use: nothing is kept, so a
// changed secret counts from the next use on. A value shows itself as "•••" in
// every kind of output, but for [Value.Reveal].
//
// Who was given a secret may say it. A [Mask] made of the values that somebody
// got replaces each of them in what that somebody sends, in all the notations
// that programs commonly write it in, before anything else reads it.
package secrets
