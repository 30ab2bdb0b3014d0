package proptest

const (
	clockFile     = "actors/leaseclock/clock.go"
	callsFile     = "actors/callqueue/queue.go"
	exitFile      = "actors/exitpolicy/policy.go"
	downloadsFile = "actors/downloadqueue/queue.go"
	laneFile      = "actors/lane.go"
	partsFile     = "actors/parts.go"
	doorsFile     = "actors/doors.go"

	relayTest = "actors/TestRelayKeepsItsPromisesUnderAnyFaults"
)

// castMutants are planted into the cores of the relay's actors.
var castMutants = []mutant{
	{"a beat reaches past the deadline", clockFile, "Ask: min(c.limits.Window, c.lease.Deadline.Sub(now))", "Ask: c.limits.Window", "TestLeaseClock"},
	{"a beat beside another", clockFile, "if c.inFlight {\n\t\treturn nil // skipped", "if c.inFlight && c.failures > 99 {\n\t\treturn nil // skipped", "TestLeaseClock"},
	{"too little is asked for", clockFile, "Add(-c.limits.Minimum).Add(1)", "Add(-c.limits.Minimum/2).Add(1)", "TestLeaseClock"},
	{"a late answer counts", clockFile, "return c.inFlight && b.Lease == c.lease.ID && b.Number == c.number", "return b.Lease == c.lease.ID", "TestLeaseClock"},
	{"an answer of another lease counts", clockFile, "&& b.Lease == c.lease.ID && b.Number == c.number", "", "TestLeaseClock"},
	{"the deadline is not looked at after a sleep", clockFile, "if c.phase != renewing {\n\t\treturn nil\n\t}\n\tif c.tooLate(now) {", "if c.phase != renewing {\n\t\treturn nil\n\t}\n\tif c.tooLate(now) && now.Before(c.due) {", "TestLeaseClock"},
	{"a pause does not wait for the beat in flight", clockFile, "c.phase, c.reason = pausing, reason\n\tif c.inFlight {", "c.phase, c.reason = pausing, reason\n\tif c.inFlight && c.final {", "TestLeaseClock"},
	{"a pause asks for a window only", clockFile, "FinalBeat{Beat: c.next(), Ask: c.lease.Deadline.Sub(now)}", "FinalBeat{Beat: c.next(), Ask: min(c.limits.Window, c.lease.Deadline.Sub(now))}", "TestLeaseClock"},
	{"a lost beat ends the renewing", clockFile, "c.due = now.Add(c.limits.retryAfter(c.failures))", "c.due = now.Add(time.Hour)", "TestLeaseClock"},
	{"a lease near its end is not renewed at once", clockFile, "case fresh.Before(now):\n\t\treturn now", "case fresh.Before(now):\n\t\treturn next", "TestLeaseClock"},
	{"renewing goes on after a stop", clockFile, "if c.phase != renewing {\n\t\treturn nil\n\t}\n\tc.phase = idle\n\treturn []Effect{SaveActive{Reason: reason}}", "return []Effect{SaveActive{Reason: reason}}", "TestLeaseClock"},

	{"the youngest call first", callsFile, "q.waiting = append(q.waiting, call)\n\treturn nil", "q.waiting = append([]CallArrived{call}, q.waiting...)\n\treturn nil", "TestCallQueue"},
	{"a detached call gives up its place", callsFile, "q.detached = true\n\treturn []Effect{DetachCall{ID: q.running}}", "defer func() { q.running = \"\" }()\n\treturn []Effect{DetachCall{ID: q.running}}", "TestCallQueue"},
	{"a detached call is answered again", callsFile, "if answered {\n\t\treturn nil\n\t}", "_ = answered", "TestCallQueue"},
	{"a cancelled waiting call starts", callsFile, "return q.refuse(Cancelled, func(_ int, call CallArrived) bool { return call.ID == id })", "return nil", "TestCallQueue"},
	{"an expired call starts", callsFile, "effects := q.refuse(Expired, func(_ int, call CallArrived) bool {", "effects := q.refuse(Expired, func(i int, call CallArrived) bool {\n\t\tif i == 0 {\n\t\t\treturn false\n\t\t}", "TestCallQueue"},
	{"a closed queue takes calls", callsFile, "case q.closed:", "case q.closed && q.running == \"\":", "TestCallQueue"},
	{"a waiting finish is refused at the close", callsFile, "kept = i + 1", "kept = i", "TestCallQueue"},
	{"the last call is cut off", callsFile, "if q.running != q.last {", "if q.running != \"\" {", "TestCallQueue"},
	{"any end ends the running call", callsFile, "if q.running == \"\" || q.running != id {", "if q.running == \"\" {", "TestCallQueue"},

	{"it quits twice", exitFile, "	p.phase = over\n", "", "TestExitPolicy"},
	{"the grace is not waited for", exitFile, "p.phase, p.until = settling, now.Add(p.limits.Grace)", "p.phase, p.until = settling, now.Add(p.limits.Grace/2)", "TestExitPolicy"},
	{"the last budget never ends", exitFile, "p.phase, p.until = direct, now.Add(p.limits.Direct)", "p.phase, p.until = direct, now.Add(2*p.limits.Direct)", "TestExitPolicy"},
	{"a failed guest is settled directly", exitFile, "if p.settled(ev.Name) {\n\t\t\tp.failed = append(p.failed, ev.Name)\n\t\t}", "p.failed = append(p.failed, ev.Name)", "TestExitPolicy"},
	{"a failure does not show in the code", exitFile, "if len(left) > 0 {", "if len(p.asked) > 0 {", "TestExitPolicy"},
	{"a second end asks again", exitFile, "if p.phase != open {\n\t\treturn nil\n\t}\n\tp.phase, p.until", "p.phase, p.until", "TestExitPolicy"},

	{"two of one key", downloadsFile, "key == q.flying || recording ||", "recording ||", "TestDownloadQueue"},
	{"a paused queue goes on", downloadsFile, "if q.paused && !q.promoted[q.waiting[0]] {", "if q.paused && len(q.waiting) > 5 {", "TestDownloadQueue"},
	{"a promoted job waits while paused", downloadsFile, "if q.paused && !q.promoted[q.waiting[0]] {", "if q.paused {", "TestDownloadQueue"},
	{"the next begins before the end is recorded", downloadsFile, "q.flying != \"\" || len(q.recording) > 0 || len(q.waiting) == 0", "q.flying != \"\" || len(q.waiting) == 0", "TestDownloadQueue"},
	{"a drain forgets what waits", downloadsFile, "for _, key := range q.waiting {", "for _, key := range q.waiting[:min(1, len(q.waiting))] {", "TestDownloadQueue"},
	{"a drain does not wait", downloadsFile, "return q.flying == \"\" && len(q.recording) == 0 && len(q.waiting) == 0", "return q.flying == \"\" && len(q.waiting) == 0", "TestDownloadQueue"},
	{"who waits is not woken", downloadsFile, "if was && !q.full {", "if was && !q.full && q.paused {", "TestDownloadQueue"},
	{"a drain keeps the pause", downloadsFile, "q.state, q.paused = closing, false", "q.state = closing", "TestDownloadQueue"},
	{"a closed queue writes", downloadsFile, "if q.state == closed {\n\t\treturn nil\n\t}", "", "TestDownloadQueue"},

	{"a lane works beside what an earlier one left", laneFile, "case l.turn <- struct{}{}:\n\t\treturn nil\n\tdefault:", "case l.turn <- struct{}{}:\n\t\treturn nil\n\tdefault:\n\t\tgo func() { l.turn <- struct{}{} }()\n\t\treturn nil\n\t}\n\tselect {", relayTest},
	{"a call overtakes another on the way to its lane", doorsFile, "case <-own:\n\t\treturn leave, nil", "default:\n\t\treturn leave, nil", relayTest},
	{"a guest is paused twice", partsFile, "err != nil || e.settled {", "err != nil {", "actors/TestAnOperationThatHangsIsCutOffAndItsGuestPausedAllTheSame"},
	{"the lease is not renewed during an operation", laneFile, "\t\tl.renew()\n\t}\n\tresult, err", "\t}\n\tresult, err", "actors/TestGuestsOfAnEarlierProcessAreShownAtOnceAndTakenUpByTheFirstCall"},
	{"a release after the grace begins with all its time", laneFile, "\tl.hurry(next)\n", "", "actors/TestARunThatOutlivesTheGraceIsCancelledAndItsGuestDestroyedAtOnce"},
}
