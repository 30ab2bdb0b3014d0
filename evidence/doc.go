// Package evidence keeps what a recording leaves behind and makes it checkable: durable files, the append-only journal with
// its hash chain, the package (a folder sealed by manifest.json), its verification, the verdicts derived from it, and the
// merge of a guest's state into the host's copy.
//
// Writers use [WriteRecord], [WriteExclusive] and [OpenJournal]. [Seal] makes a recording folder final, [Verify] recomputes
// everything and names every problem, [Review] derives steps, verdicts and their reasons. Verify and Review only read.
//
// What is written here stays readable: names of files, journal kinds and JSON fields are never changed, only added to.
package evidence
