// Package background finds the machine-service of this user, or starts one that outlives whoever needed it.
//
// Starting is a claim: a lock that the starter holds until the service answers. Whoever comes meanwhile waits and then uses
// it, so that two at once start one. A service in use publishes a record of itself; a record counts only when the service it
// names answers with the record's own nonce, so that nothing else on that port is ever taken for it.
package background
