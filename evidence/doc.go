// Package evidence keeps what a recording leaves behind and makes it checkable: durable files, the append-only journal with
// its hash chain, the package (a folder sealed by manifest.json), its verification, the verdicts derived from it, and the
// merge of a guest's state into the host's copy.
//
// Writers use [WriteRecord], [WriteExclusive] and [OpenJournal]. [Seal] makes a recording folder final, [Verify] recomputes
// everything and names every problem, [Review] derives steps, verdicts and their reasons. Verify and Review only read.
//
// Verify holds what a package says twice against itself: an edit that the manifest's hash follows is found where another file,
// or the journal, still tells. What is said only once, such as host events, deliveries, facts of extractions, the output of
// diagnostics and times that the host alone noted, can be edited together with its hash, and so can a whole package that is
// written anew. Verify proves agreement, not authorship: only a signature over the manifest could.
//
// What is written here stays readable: names of files, journal kinds and JSON fields are never changed, only added to.
package evidence
