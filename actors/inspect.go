package actors

import "time"

// Node is what can be seen of an actor without asking it.
type Node struct {
	ID          string
	Path        string
	State       string // of a child: down, waiting, starting, up, stopping; of a root: starting, up, stopping, ended
	Incarnation uint64
	Mailbox     int // messages told and not taken yet
	Uptime      time.Duration
	Restarts    int
	LastExit    error // of the incarnation before, or of this one if it has ended
	Children    []Node
}

// Inspect shows the tree below an actor as it stands. It asks nobody, and so answers at once, whatever hangs in it.
func Inspect(root Ref) Node {
	if root.life == nil {
		return Node{State: ended.String()}
	}
	return root.life.node()
}

func (s state) String() string { return [...]string{"starting", "up", "stopping", "ended"}[s] }

func (l *life) node() Node {
	l.mu.RLock()
	children, reason := l.children, l.reason
	l.mu.RUnlock()
	n := Node{ID: l.id, Path: l.path, State: state(l.state.Load()).String(), Incarnation: l.incarnation, LastExit: reason,
		Mailbox: int(max(l.pending.Load(), 0)), Uptime: time.Since(l.made)}
	for _, child := range children {
		n.Children = append(n.Children, child.node(l.path))
	}
	return n
}

// node is the child as its supervisor sees it, with what its own incarnation shows.
func (i ChildInfo) node(parent string) Node {
	n := Node{ID: i.Spec.ID, Path: parent + "/" + i.Spec.ID}
	if i.Ref.life != nil {
		n = i.Ref.life.node()
	}
	n.State, n.Restarts = i.State, i.Restarts
	if n.LastExit == nil {
		n.LastExit = i.LastExit
	}
	return n
}

// publish keeps what a supervisor knows where Inspect finds it.
func (l *life) publish(children []ChildInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children = children
}
