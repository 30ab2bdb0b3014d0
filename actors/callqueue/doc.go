// Package callqueue decides the order of the calls on one guest: one at a time, in the order of their arrival. It is pure: the
// lane tells it what happened and carries out what it orders.
//
// Every call that arrives gets exactly one of AnswerCall, RefuseCall and DetachCall; only a call that got StartCall has begun. A
// running call that is cancelled is answered at once (DetachCall) and keeps its place until its work has ended, since whatever
// it began may still be going on.
package callqueue
