package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// States of a recording and of a submission. A refused run is stored as uncertain here, as readers of these files know it;
// its outcome says refused.
const (
	stateStarting  = "starting"
	stateActive    = "active"
	statePending   = "pending"
	stateCompleted = "completed"
	stateUncertain = "uncertain"
)

// recordingRecord lists the executions of one recording, in the order of their submission.
type recordingRecord struct {
	SessionID  string   `json:"sessionId"`
	TaskID     string   `json:"taskId"`
	Target     string   `json:"target"`
	CreatedAt  string   `json:"createdAt"`
	State      string   `json:"state"`
	Executions []string `json:"executions"`
}

// submission is the host's note about one execution, durable before anything of it is sent. One that a restart finds pending
// may have run: it is never sent again.
type submission struct {
	ExecutionID string            `json:"executionId"`
	SessionID   string            `json:"sessionId"`
	Argv        []string          `json:"argv"`
	SubmittedAt string            `json:"submittedAt"`
	State       string            `json:"state"`
	Outcome     *protocol.Outcome `json:"outcome,omitempty"`
	Script      submittedScript   `json:"script"`
}

type submittedScript struct {
	ScriptID   string `json:"scriptId"`
	RemotePath string `json:"remotePath"`
	Language   string `json:"language"`
	SHA256     string `json:"sha256"`
}

func (r *Record) recordingPath(session string) string {
	return r.host("host", "submissions", "sessions", session+".json")
}

func (r *Record) submissionPath(session, execution string) string {
	return r.host("host", "submissions", "sessions", session, execution+".json")
}

// startRecording allocates a recording and makes its record durable.
func (g *Guest) startRecording() (string, error) {
	r, now := g.rec(), g.now()
	name, err := g.machineName()
	if err != nil {
		return "", err
	}
	session := newID("session-", now)
	record := recordingRecord{SessionID: session, TaskID: r.Purpose, Target: "machine-service:" + name, CreatedAt: isoTime(now), State: stateStarting, Executions: []string{}}
	if err := writeInto(r.recordingPath(session), record); err != nil {
		return "", fmt.Errorf("cannot begin the recording: %w", err)
	}
	record.State = stateActive
	if err := writeInto(r.recordingPath(session), record); err != nil {
		return "", fmt.Errorf("cannot begin the recording: %w", err)
	}
	return session, nil
}

// attach reads the record of the recording again, after a restart. It sends nothing. What is wrong with it is remembered as
// the guest's failure and leaves diagnosis possible.
func (g *Guest) attach() {
	r := g.rec()
	if !r.Staged || r.Delivered != nil {
		return
	}
	if _, err := loadRecording(r); err != nil {
		text := "cannot attach the recording: " + err.Error()
		_ = g.update(func(r *Record) { r.LastError = text }) // the next run reads the same file and fails with the same words
	}
}

func loadRecording(r *Record) (recordingRecord, error) {
	var record recordingRecord
	err := readJSON(r.recordingPath(r.SessionID), &record)
	if err == nil && (record.SessionID != r.SessionID || record.TaskID != r.Purpose) {
		err = errors.New("its record is of another recording")
	}
	return record, err
}

// submit makes a submission pending: first itself, then its place in the recording's list.
func (g *Guest) submit(s submission) error {
	r := g.rec()
	record, err := loadRecording(r)
	if err != nil {
		return fmt.Errorf("cannot use the recording: %w", err)
	}
	if err := writeInto(r.submissionPath(r.SessionID, s.ExecutionID), s); err != nil {
		return fmt.Errorf("cannot record the submission: %w", err)
	}
	record.Executions = append(record.Executions, s.ExecutionID)
	record.State = stateActive // also after a seal that failed
	if err := writeInto(r.recordingPath(r.SessionID), record); err != nil {
		return fmt.Errorf("cannot record the submission: %w", err)
	}
	return nil
}

// settle writes how a submission ended.
func (g *Guest) settle(s submission, outcome protocol.Outcome) error {
	s.State, s.Outcome = stateUncertain, &outcome
	if outcome.Kind == protocol.Completed {
		s.State = stateCompleted
	}
	return writeInto(g.rec().submissionPath(s.SessionID, s.ExecutionID), s)
}

// writeInto writes a durable record and the folders above it.
func writeInto(path string, v any) error {
	if err := makeDir(path); err != nil {
		return err
	}
	return evidence.WriteRecord(path, v)
}

func readJSON(path string, v any) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}
