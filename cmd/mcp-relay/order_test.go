package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Three guests at once, ten scripts on each, all sent before the first one ends: the journals' own times prove that scripts of
// different guests overlap and that those of one guest neither overlap nor change their order.
func TestScriptsRunInOrderOnAGuestAndAtOnceOnDifferentGuests(t *testing.T) {
	t.Parallel()
	needMachines(t)
	const guests, scripts = 3, 10
	w := newWorld(t)
	c := w.rawConnect()
	names := make([]string, guests)
	for i := range names {
		got := c.must("relay_acquire", map[string]any{"task": fmt.Sprintf("order-%d", i), "image": "host", "extractions": []any{}, "ttlHours": 1})
		names[i], _ = got["guest"].(string)
		c.must("relay_stage", map[string]any{"guest": names[i]})
	}
	var answers []<-chan rawAnswer
	for n := range scripts {
		for _, name := range names {
			args := shell(name, fmt.Sprintf("echo run %d; sleep 0.2", n))
			args["step"] = map[string]any{"id": fmt.Sprintf("n-%d", n)}
			answers = append(answers, c.call("relay_script", args))
		}
	}
	for i, ch := range answers {
		if a := <-ch; a.lost || a.Error != nil || a.Result.IsError {
			t.Fatalf("script %d: %+v\n%s", i, a, c.log)
		}
	}
	for _, name := range names {
		c.must("relay_finish", map[string]any{"guest": name})
	}
	all := make([][]span, guests)
	for i := range names {
		all[i] = journalSpans(t, w.evidenceOf(fmt.Sprintf("order-%d", i)))
		if len(all[i]) != scripts {
			t.Fatalf("guest %d: %d runs in the journal, want %d", i, len(all[i]), scripts)
		}
		for n, s := range all[i] {
			if s.step != fmt.Sprintf("n-%d", n) {
				t.Errorf("guest %d: run %d is %s: the order of arrival was not kept", i, n, s.step)
			}
			if n > 0 && s.from.Before(all[i][n-1].to) {
				t.Errorf("guest %d: run %d began before run %d had ended", i, n, n-1)
			}
		}
	}
	for i := range all {
		if other := all[(i+1)%guests]; !overlap(all[i], other) {
			t.Errorf("no script of guest %d ran while one of guest %d did", i, (i+1)%guests)
		}
	}
}

type span struct {
	step     string
	from, to time.Time
}

func overlap(a, b []span) bool {
	for _, x := range a {
		for _, y := range b {
			if x.from.Before(y.to) && y.from.Before(x.to) {
				return true
			}
		}
	}
	return false
}

// journalSpans reads when each run began and ended, in the journal's order.
func journalSpans(t *testing.T, pkg string) []span {
	t.Helper()
	f, err := os.Open(filepath.Join(pkg, "state", "journal", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var spans []span
	index := map[string]int{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e struct {
			Kind, ExecutionID, StepID string
			WrittenAt                 time.Time
		}
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case "action-start":
			index[e.ExecutionID] = len(spans)
			spans = append(spans, span{step: e.StepID, from: e.WrittenAt})
		case "action-completion":
			spans[index[e.ExecutionID]].to = e.WrittenAt
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return spans
}
