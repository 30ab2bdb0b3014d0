package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Durability of an appended line.
type Durability int

const (
	Buffered Durability = iota // in the file, not yet on disk: a power loss may take it
	Durable                    // on disk, with every line before it
)

// TimeFormat is how evidence writes a time: UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// MaxJournalLine bounds one line, its newline included.
const MaxJournalLine = 16 << 20

// noLine is what the first line has as the hash of the line before it.
const noLine = "0000000000000000000000000000000000000000000000000000000000000000"

// Journal appends to the recording's one journal file. Each line is a JSON object that carries seq (0, 1, ... over the whole
// file), writtenAt, and prev: the SHA-256 of the line before it, without its newline. Safe for several goroutines; only one
// Journal may be open on a file, which is the caller's lock to hold.
type Journal struct {
	mu     sync.Mutex
	file   journalFile
	head   string
	lines  int
	size   int64
	broken error
	now    func() time.Time
}

// journalFile is the part of *os.File a journal needs, so that tests can let the disk fill up.
type journalFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// OpenJournal opens the journal at path for appending, making it and its folder when missing, and checks every line. When
// any line is bad, also an unfinished last one, the error is a *DamagedError and the file is exactly as it was found: what
// follows a damage could not be trusted, so the recording must be reset. Hold the recording's lock.
func OpenJournal(path string) (*Journal, error) {
	if err := MakeDirs(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot open journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open journal: %w", err)
	}
	journal, err := openChecked(file)
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open journal %s: %w", path, errors.Join(err, file.Close()))
	}
	return journal, nil
}

func openChecked(file *os.File) (*Journal, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	read, err := ReadJournal(file, func(JournalLine) error { return nil })
	if err != nil {
		return nil, err
	}
	if read.Lines > 0 && !read.Chained {
		return nil, &DamagedError{Line: 1, Why: "it has no hash chain, so nothing can be added to it"}
	}
	return &Journal{file: file, head: read.Head, lines: read.Lines, size: read.Bytes, now: time.Now}, nil
}

// Append adds line, which must marshal to a JSON object without seq, writtenAt and prev, and returns the line's hash. With
// Durable it returns once this line and all before it are on disk. After a failed write the file ends with the line before,
// and the next Append may succeed; after a failed sync, or when the failed write could not be taken back, the journal is
// broken and every later Append fails.
func (j *Journal) Append(line any, durability Durability) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return "", fmt.Errorf("cannot append to journal: %w", j.broken)
	}
	data, err := j.render(line)
	if err != nil {
		return "", fmt.Errorf("cannot append to journal: %w", err)
	}
	if err := j.write(data); err != nil {
		return "", fmt.Errorf("cannot append to journal: %w", err)
	}
	hash := hashLine(data[:len(data)-1])
	j.head, j.lines, j.size = hash, j.lines+1, j.size+int64(len(data))
	if durability == Durable {
		return hash, j.sync()
	}
	return hash, nil
}

// Head is the hash of the last line, or 64 zeros when there is none.
func (j *Journal) Head() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// Lines counts the lines in the file.
func (j *Journal) Lines() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines
}

// Close makes every line durable and closes the file. Later appends fail.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, fs.ErrClosed) {
		return nil
	}
	var err error
	if j.broken == nil {
		err = j.sync()
	}
	j.broken = fs.ErrClosed
	return errors.Join(err, j.file.Close())
}

// write adds data whole, or takes back what arrived of it. A file that is not as long as this journal made it was written by
// somebody else, and is left alone.
func (j *Journal) write(data []byte) error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != j.size {
		j.broken = fmt.Errorf("the file has %d bytes where %d were written", info.Size(), j.size)
		return j.broken
	}
	if _, err = j.file.Write(data); err == nil {
		return nil
	}
	if undo := j.file.Truncate(j.size); undo != nil {
		j.broken = fmt.Errorf("an unfinished line could not be taken back: %w", errors.Join(err, undo))
		return j.broken
	}
	return err
}

func (j *Journal) sync() error {
	if err := j.file.Sync(); err != nil {
		j.broken = fmt.Errorf("it is not known what reached the disk: %w", err)
		return fmt.Errorf("cannot sync journal: %w", j.broken)
	}
	return nil
}

// chainFields are what Append adds to a line.
type chainFields struct {
	Seq       *int64  `json:"seq,omitempty"`
	WrittenAt *string `json:"writtenAt,omitempty"`
	Prev      *string `json:"prev,omitempty"`
}

// render returns the line with its chain fields and newline.
func (j *Journal) render(line any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return nil, err
	}
	body := bytes.TrimRight(out.Bytes(), "\n")
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil || given == nil {
		return nil, errors.New("the line is not a JSON object")
	}
	for _, own := range []string{"seq", "writtenAt", "prev"} {
		if _, has := given[own]; has {
			return nil, fmt.Errorf("the line has a field %q of its own", own)
		}
	}
	var comma string
	if len(given) > 0 {
		comma = ","
	}
	body = fmt.Appendf(body[:len(body)-1], "%s\"seq\":%d,\"writtenAt\":%q,\"prev\":%q}\n",
		comma, j.lines, j.now().UTC().Format(TimeFormat), j.head)
	if len(body) > MaxJournalLine {
		return nil, fmt.Errorf("the line has %d bytes, more than %d", len(body), MaxJournalLine)
	}
	return body, nil
}

func hashLine(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
