package admission

import (
	"encoding/json"
	"fmt"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// History is what the journal tells a receiver about the runs before its own. The zero value is an empty journal's.
type History struct {
	Groups Groups
	Asked  string            // execution whose receipt is kept
	Answer *protocol.Receipt // that receipt, when the journal holds it
	open   []*Unfinished
}

// Unfinished is a run whose execution-completion is missing: its receiver died.
type Unfinished struct {
	IDs
	StepID    string
	ActionID  string // "" when no action was begun
	GroupID   string
	Ended     bool // the action has its completion or refusal
	Snapshots []protocol.Snapshot
	group     *protocol.Group
}

// Unfinished runs, the oldest first.
func (h *History) Unfinished() []*Unfinished { return h.open }

// line has the fields of journal lines that matter here.
type line struct {
	IDs
	Kind           string          `json:"kind"`
	AnnotationType string          `json:"annotationType"`
	ActionID       string          `json:"actionId"`
	StepID         string          `json:"stepId"`
	GroupID        string          `json:"groupId"`
	Step           protocol.Step   `json:"step"`
	Group          *protocol.Group `json:"group"`
	Snapshot       Captured        `json:"snapshot"`
	Response       struct {
		Outcome protocol.Outcome `json:"outcome"`
	} `json:"response"`
}

// Add takes the journal's next line and its hash.
func (h *History) Add(raw []byte, hash string) error {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("journal line cannot be understood: %w", err)
	}
	if l.Kind == "annotation" {
		h.annotation(l)
		return nil
	}
	if l.Kind == "execution-completion" && l.ExecutionID == h.Asked {
		if err := h.keep(raw, hash); err != nil {
			return err
		}
	}
	u := h.find(l)
	if u == nil {
		return nil
	}
	switch l.Kind {
	case "execution-start":
		u.group = l.Group
		if l.Group != nil {
			u.GroupID = l.Group.GroupID
		}
		h.Groups = h.Groups.Begin(u.IDs, l.Group)
	case "action-start":
		u.ActionID, u.StepID = l.ActionID, l.StepID
	case "snapshot-captured":
		u.Snapshots = append(u.Snapshots, l.Snapshot.Descriptor(u.IDs, u.ActionID, u.StepID, u.GroupID))
	case "action-completion", "action-refusal":
		u.Ended = true
	case "execution-completion":
		h.complete(u, l.Response.Outcome)
	}
	return nil
}

// keep takes the receipt from its line, as the receipt file has it: with the hash of that line.
func (h *History) keep(raw []byte, hash string) error {
	var l struct {
		Response protocol.Receipt `json:"response"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("journal line cannot be understood: %w", err)
	}
	l.Response.JournalHead = hash
	h.Answer = &l.Response
	return nil
}

func (h *History) annotation(l line) {
	switch l.AnnotationType {
	case "routing-decision":
		h.open = append(h.open, &Unfinished{IDs: l.IDs, StepID: l.Step.ID})
	case "group-incomplete":
		if a := h.Groups.Active; a != nil && a.GroupID == l.GroupID {
			h.Groups = h.Groups.Abandon()
		}
	}
}

// complete forgets a run that has its end. The last run of a group closes it, and one that failed breaks it.
func (h *History) complete(u *Unfinished, o protocol.Outcome) {
	a := h.Groups.Active
	if a != nil && u.group != nil && u.group.GroupID == a.GroupID && (u.group.Phase == PhaseLast || !Keeps(o)) {
		h.Groups = h.Groups.Abandon()
	}
	for i := range h.open {
		if h.open[i] == u {
			h.open = append(h.open[:i], h.open[i+1:]...)
			return
		}
	}
}

// find is the open run that a line belongs to; lines of captures name the action only.
func (h *History) find(l line) *Unfinished {
	for _, u := range h.open {
		if (l.ExecutionID != "" && u.ExecutionID == l.ExecutionID) || (l.ExecutionID == "" && l.ActionID != "" && u.ActionID == l.ActionID) {
			return u
		}
	}
	return nil
}
