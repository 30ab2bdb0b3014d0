package evidence

import (
	"path"
	"slices"
	"strings"
)

// The rules of this file hold the papers of one execution against each other. Each applies where both sides carry the fact, so
// that a package whose writers said less is not worse for it.

// checkNames holds the ids in a file against its name, and its recording against ours.
func checkNames(m *material, found func(hit)) {
	for _, rel := range sortedKeys(m.papers) {
		p, field, dir := m.papers[rel], "executionId", path.Dir(rel)+"/"
		switch {
		case strings.HasPrefix(dir, "state/records/action"), dir == imageRecordsDir:
			field = "actionId"
		case dir == submissionsDir:
			field = "sessionId"
			m.checkSession(rel, p, found)
		}
		if m.guestsReceipt(rel) && m.rejected(baseID(rel)) {
			continue // why it was rejected may be this
		}
		if id := p.text(field); p[field] != nil && id != baseID(rel) {
			found(failure(rel, 0, "its %s is %q, and its name another", field, id))
		}
		session := m.id.SessionID
		if strings.HasPrefix(dir, submissionsDir) && dir != submissionsDir {
			session = path.Base(dir)
		}
		if id := p.text("sessionId"); field == "executionId" && id != "" && id != session {
			found(failure(rel, 0, "it belongs to another recording, %s", id))
		}
	}
}

func (m *material) guestsReceipt(rel string) bool {
	return strings.HasPrefix(rel, guestReceiptsDir) || strings.HasPrefix(rel, imageReceiptsDir) || strings.HasPrefix(rel, stateReceiptsDir)
}

// checkSession holds the host's list of a recording's executions against the executions' own files.
func (m *material) checkSession(rel string, p paper, found func(hit)) {
	session := baseID(rel)
	if task := p.text("taskId"); session == m.id.SessionID && task != "" && task != m.id.TaskID {
		found(failure(rel, 0, "its taskId is %q, the package's %q", task, m.id.TaskID))
	}
	for _, e := range p.list("executions") {
		id, _ := e.(string)
		if m.papers[submissionsDir+session+"/"+id+".json"] == nil {
			found(failure(rel, 0, "it lists execution %q, which has no submission", e))
		}
	}
}

// checkRequestHashes holds a request's bytes against the hash that its receipts and its mark of the start name.
func checkRequestHashes(m *material, found func(hit)) {
	for _, rel := range m.in(requestsDir) {
		id := baseID(rel)
		for _, dir := range []string{hostReceiptsDir, guestReceiptsDir, stateReceiptsDir, startedDir} {
			named := m.papers[dir+id+".json"].text("requestSha256")
			if named == "" || named == m.digests[rel].SHA256 || dir != hostReceiptsDir && m.rejected(id) {
				continue
			}
			found(failure(rel, 0, "its bytes are not those that %s answers", dir+id+".json"))
		}
	}
}

// checkReceiptCopies holds the copies of a receipt against each other. A receiver writes its receipt once and never again, so
// what the host pulled are the bytes in the state. The host's own receipt is either what it read in them, or its verdict.
func checkReceiptCopies(m *material, found func(hit)) {
	for _, rel := range m.in(guestReceiptsDir) {
		other := stateReceiptsDir + path.Base(rel)
		if d, has := m.digests[other]; has && d != m.digests[rel] {
			found(failure(rel, 0, "its bytes are not those of %s", other))
		}
	}
	for _, rel := range m.in(hostReceiptsDir) {
		p, pulled := m.papers[rel], guestReceiptsDir+path.Base(rel)
		if p.short() {
			if kind := p.object("outcome").text("kind"); kind != StepRefused && kind != StepUncertain {
				found(failure(rel, 0, "it says %q without the receipt that could prove it", kind))
			}
			continue
		}
		if at := clash(p, m.papers[pulled]); at != "" {
			found(failure(rel, 0, "its %s is not that of %s", at, pulled))
		}
	}
	m.checkResponses(found)
	m.checkRefusedStarts(found)
	m.checkImageCopies(found)
}

// checkImageCopies holds what the host copied to prove a picture against the state. An action record may have been copied while
// its action was under way; a receipt is written once.
func (m *material) checkImageCopies(found func(hit)) {
	for _, copied := range []string{imageRecordsDir, imageReceiptsDir} {
		for _, rel := range m.in(copied) {
			other := map[string]string{imageRecordsDir: "state/records/action/", imageReceiptsDir: stateReceiptsDir}[copied] + path.Base(rel)
			p := m.papers[rel]
			if state := p.text("state"); copied == imageRecordsDir && (state == "admitted" || state == "pending") {
				p = p.only("actionId", "executionId", "sessionId", "attemptId", "stepId", "title", "inputMode")
			}
			if at := clash(p, m.papers[other]); at != "" && !m.rejected(baseID(rel)) {
				found(failure(rel, 0, "its %s is not that of %s", at, other))
			}
		}
	}
}

// checkResponses holds receipts against the answer in the journal.
func (m *material) checkResponses(found func(hit)) {
	for _, dir := range []string{hostReceiptsDir, guestReceiptsDir, stateReceiptsDir} {
		for _, rel := range m.in(dir) {
			p, end := m.papers[rel], m.heard(baseID(rel)).end
			response := end.fields.object("response")
			if p.short() && dir == hostReceiptsDir || response == nil || m.rejected(baseID(rel)) {
				continue // a receipt that was rejected need not be the receiver's work
			}
			if p.object("outcome").text("kind") == StepUncertain { // the journal's line was written, and then something failed
				p = p.without("outcome", "stdout", "stderr", "outputTruncated")
			}
			if at := clash(p, response); at != "" {
				found(failure(rel, 0, "its %s is not what line %d of the journal says", at, end.line))
			}
		}
	}
}

func (m *material) checkRefusedStarts(found func(hit)) {
	for _, rel := range m.in(startedDir) {
		receipt := stateReceiptsDir + path.Base(rel)
		refused, reason := m.papers[rel].text("refused"), m.papers[receipt].object("outcome").text("reason")
		if refused != "" && reason != "" && refused != reason && !m.rejected(baseID(rel)) {
			found(failure(rel, 0, "it was claimed to be refused for %q, and %s says %q", refused, receipt, reason))
		}
	}
}

// checkRequests holds each request against what the journal repeats of it, and its submission and receipts against it.
func checkRequests(m *material, found func(hit)) {
	for _, rel := range m.in(requestsDir) {
		p, s := m.papers[rel].stated(), m.heard(baseID(rel))
		for _, c := range []struct {
			at   int
			a, b paper
		}{
			{s.routing.line, p.only("attemptId", "because", "step", "timeoutMs"), s.routing.fields},
			{s.routing.line, p.object("snapshots"), s.routing.fields.object("snapshotRequest")},
			{s.start.line, p.only("attemptId", "cwd", "step", "timeoutMs"), s.start.fields},
			{s.start.line, p.only("language"), s.start.fields.object("scriptIdentity")},
			{s.start.line, scriptOf(p), s.start.fields.object("scriptIdentity")},
		} {
			if at := clash(c.a, c.b.stated()); at != "" {
				found(failure(rel, 0, "its %s is not what line %d of the journal says", at, c.at))
			}
		}
		for _, dir := range []string{hostReceiptsDir, guestReceiptsDir, stateReceiptsDir} {
			if at := clash(m.papers[dir+path.Base(rel)].only("timeoutMs"), p); at != "" && !m.rejected(baseID(rel)) {
				found(failure(rel, 0, "its %s is not that of %s", at, dir+path.Base(rel)))
			}
		}
	}
	m.checkSubmissions(found)
	m.checkDiagnostics(found)
}

// scriptOf is a request's script in the words that other papers use.
func scriptOf(request paper) paper {
	script := request.object("script")
	if where, has := script["path"]; has {
		script = script.without("path")
		script["remotePath"] = where
	}
	return script
}

func (m *material) checkSubmissions(found func(hit)) {
	for _, rel := range sortedKeys(m.papers) {
		if !strings.HasPrefix(rel, submissionsDir) || path.Dir(rel)+"/" == submissionsDir {
			continue
		}
		p, request, receipt := m.papers[rel], requestsDir+path.Base(rel), hostReceiptsDir+path.Base(rel)
		bad := func(at, other string) {
			if at != "" {
				found(failure(rel, 0, "its %s is not that of %s", at, other))
			}
		}
		wanted := m.papers[request].stated()
		script := scriptOf(wanted)
		bad(clash(p.object("script").stated(), script), request)
		bad(clash(p.object("script").only("language"), wanted), request)
		if argv := (paper{"argv": []any{wanted["language"], script["remotePath"]}}); wanted["language"] != nil && script["remotePath"] != nil {
			bad(clash(p.only("argv"), argv), request)
		}
		bad(clash(p.only("outcome"), m.papers[receipt]), receipt)
		completed := p.object("outcome").text("kind") == StepCompleted
		if state := p.text("state"); p.object("outcome") != nil && (completed && state != StepCompleted || !completed && state != StepUncertain) {
			found(failure(rel, 0, "its state is %q, which its outcome contradicts", state))
		}
	}
}

func (m *material) checkDiagnostics(found func(hit)) {
	for _, rel := range m.in(diagnosticsDir) {
		request, is := strings.CutSuffix(rel, ".receipt.json")
		request += ".request.json"
		if at := clash(m.papers[rel].only("evidenceMode", "timeoutMs"), m.papers[request]); is && at != "" {
			found(failure(rel, 0, "its %s is not that of %s", at, request))
		}
	}
}

// checkExecutionRecords holds each execution record against the journal.
func checkExecutionRecords(m *material, found func(hit)) {
	for _, rel := range m.in(executionRecordsDir) {
		p, id := m.papers[rel], baseID(rel)
		s := m.heard(id)
		end := s.end.fields
		bad := func(at string, line int) {
			if at != "" {
				found(failure(rel, 0, "its %s is not what line %d of the journal says", at, line))
			}
		}
		bad(clash(p.only("attemptId", "argv"), s.start.fields), s.start.line)
		bad(clash(p.only("attemptId"), s.routing.fields), s.routing.line)
		bad(clash(p.only("actionId"), end.object("response")), s.end.line)
		if end.object("response").object("outcome").text("kind") == StepCompleted {
			bad(clash(p.only("exitStatus"), end.object("response").object("outcome")), s.end.line)
		}
		if slices.Contains([]string{"recorded", StepRefused}, end.text("state")) { // an uncertain end may come after any record
			bad(clash(p.only("state"), end), s.end.line)
		}
		m.checkRecordedAction(rel, p, found)
	}
}

// checkRecordedAction holds an execution record against the lines of its action.
func (m *material) checkRecordedAction(rel string, p paper, found func(hit)) {
	a := m.actions[p.text("actionId")]
	switch {
	case a == nil:
		return
	case a.execution() != "" && a.execution() != baseID(rel):
		found(failure(rel, 0, "its action %s is of execution %s", a.id, a.execution()))
	case a.completion != nil:
		value := readPaper(a.completion.ToolOutcome).object("value")
		if at := clash(p.only("exitStatus"), value); at != "" {
			found(failure(rel, 0, "its %s is not what line %d of the journal says", at, a.completion.line))
		}
	}
}

// checkRecordPaper holds the other fields of an action record against the journal.
func (m *material) checkRecordPaper(r *actionRecord, a *action, found func(hit)) {
	p := m.papers[r.path].stated()
	for _, e := range []*event{a.start, a.refusal, a.completion} {
		if e == nil {
			continue
		}
		lines := paper{"stepId": string(e.StepID), "executionId": string(e.ExecutionID), "title": string(e.Title),
			"inputMode": string(e.InputMode), "attemptId": string(e.AttemptID)}
		if e == a.refusal {
			lines["diagnostic"] = string(e.Diagnostic)
		}
		if at := clash(p, lines.stated()); at != "" {
			found(failure(r.path, 0, "its %s is not what line %d of the journal says", at, e.line))
		}
	}
	if s := m.heard(string(r.ExecutionID)).routing; s.fields != nil {
		if at := clash(p.only("title", "inputMode"), s.fields.object("step").stated()); at != "" {
			found(failure(r.path, 0, "its %s is not what line %d of the journal says", at, s.line))
		}
	}
	for _, e := range []*event{a.refusal, a.completion} {
		// A record that still says that the action was under way is what a death or a full disk leaves.
		if e != nil && (e.State == "recorded" || e.State == StepRefused) && !slices.Contains([]text{e.State, "admitted", "pending"}, r.State) {
			found(failure(r.path, 0, "its state is %q, in line %d of the journal %q", r.State, e.line, e.State))
		}
	}
	for _, v := range p.list("snapshots") {
		cited, _ := v.(map[string]any)
		if at := clash(cited, m.shots[paper(cited).text("fileName")]); at != "" {
			found(failure(r.path, 0, "the %s of a picture it cites is not what the journal says", at))
		}
	}
}
