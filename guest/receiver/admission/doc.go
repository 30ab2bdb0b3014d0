// Package admission decides what becomes of a request to a guest's receiver. It is pure: it is given what the disk holds and
// answers what to do, and the receiver does it.
//
// Its parts, in the order in which a request meets them:
//
//	Identify   which run is this? Without safe ids nothing is written at all.
//	Judge      is the id known? A known id is answered from the disk, never carried out.
//	Decode     does the request keep the rules? If not it is refused, durably.
//	Groups     does it fit the open snapshot group? Groups are what the journal says they are.
//	PlanOf     which pictures go with it?
package admission
