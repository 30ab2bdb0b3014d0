package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// writeJournal makes a journal of n lines and returns its path and its lines with their newlines.
func writeJournal(t testing.TB, n int) (string, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal", "events.jsonl")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := j.Append(fields{"kind": "note", "n": i, "text": "<&>"}, Durable); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")[:n:n]
}

func TestJournalGoesOnWhereItEnded(t *testing.T) {
	path, _ := writeJournal(t, 3)
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if j.Lines() != 3 {
		t.Errorf("Lines = %d, want 3", j.Lines())
	}
	head := j.Head()
	hash, err := j.Append(fields{}, Buffered)
	if err != nil {
		t.Fatal(err)
	}
	if hash != j.Head() || hash == head {
		t.Errorf("Append = %s, Head = %s, before %s", hash, j.Head(), head)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.Split(string(data), "\n")[3]
	if !strings.HasPrefix(last, `{"seq":3,"writtenAt":"`) || !strings.HasSuffix(last, `","prev":"`+head+`"}`) {
		t.Errorf("the line is %s", last)
	}
	if !strings.Contains(string(data), `"text":"<&>"`) {
		t.Error("the journal escapes HTML")
	}
}

// TestJournalNamesTheDamagedLine edits a journal in every way; the file must stay as it was found.
func TestJournalNamesTheDamagedLine(t *testing.T) {
	cut := func(s string, n int) string { return s[:n] }
	tests := []struct {
		name   string
		damage func(l []string) []string
		want   int
	}{
		{"torn tail", func(l []string) []string { l[4] = cut(l[4], 9); return l }, 5},
		{"tail without its newline", func(l []string) []string { l[4] = strings.TrimSuffix(l[4], "\n"); return l }, 5},
		{"edited first line", func(l []string) []string { l[0] = strings.Replace(l[0], `"n":0`, `"n":9`, 1); return l }, 1},
		{"edited line", func(l []string) []string { l[2] = strings.Replace(l[2], `"n":2`, `"n":9`, 1); return l }, 3},
		{"edited line before the last", func(l []string) []string { l[3] = strings.Replace(l[3], `"n":3`, `"n":9`, 1); return l }, 4},
		{"edited link", func(l []string) []string { l[2] = strings.Replace(l[2], `"prev":"`, `"prev":"0`, 1); return l }, 3},
		{"removed first line", func(l []string) []string { return l[1:] }, 1},
		{"removed line", func(l []string) []string { return append(l[:2:2], l[3:]...) }, 3},
		{"doubled line", func(l []string) []string { return append(l[:3:3], l[2:]...) }, 4},
		{"exchanged lines", func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, 3},
		{"blank line", func(l []string) []string { l[2] = "\n" + l[2]; return l }, 3},
		{"a line that is a list", func(l []string) []string { l[1] = "[]\n"; return l }, 2},
		{"a line without its link", func(l []string) []string { l[1] = "{\"seq\":1}\n"; return l }, 2},
		{"joined lines", func(l []string) []string { l[1] = strings.TrimSuffix(l[1], "\n"); return l }, 2},
		{"bytes after the end", func(l []string) []string { return append(l, "\x00\x00") }, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, all := writeJournal(t, 5)
			last := all[4]
			if !strings.HasSuffix(last, "\n") {
				all[4] = last + "\n"
			}
			text := strings.Join(tt.damage(all), "")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenJournal(path)
			var damaged *DamagedError
			if !errors.As(err, &damaged) {
				t.Fatalf("OpenJournal = %v, want a DamagedError", err)
			}
			if damaged.Line != tt.want {
				t.Errorf("%v, want line %d", damaged, tt.want)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != text {
				t.Errorf("the damaged file was changed (%v)", err)
			}
		})
	}
}

func TestJournalWithoutChainIsReadButNotContinued(t *testing.T) {
	text := "{\"kind\":\"a\",\"seq\":0}\n\n{\"kind\":\"b\",\"seq\":0}"
	read, err := ReadJournal(strings.NewReader(text), func(JournalLine) error { return nil })
	if err != nil || read.Chained || read.Lines != 3 {
		t.Errorf("ReadJournal = %+v, %v", read, err)
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	if _, err := OpenJournal(path); !errors.As(err, &damaged) {
		t.Errorf("OpenJournal = %v, want a DamagedError", err)
	}
}

func TestAppendRefusesWhatIsNoLine(t *testing.T) {
	j, err := OpenJournal(filepath.Join(t.TempDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, line := range []any{nil, 1, "text", []int{1}, fields{"seq": 1}, fields{"prev": ""}, fields{"writtenAt": ""}, func() {},
		fields{"big": strings.Repeat("x", MaxJournalLine)}} {
		if _, err := j.Append(line, Durable); err == nil {
			t.Errorf("Append(%.20v) was accepted", line)
		}
	}
	if j.Lines() != 0 {
		t.Errorf("%d lines were written", j.Lines())
	}
	if _, err := j.Append(fields{"kind": "note"}, Durable); err != nil {
		t.Errorf("Append after refusals = %v", err)
	}
}

func TestAppendFromSeveralGoroutinesKeepsTheChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 25 {
				if _, err := j.Append(fields{"g": g, "i": i}, Buffered); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if again.Lines() != 200 {
		t.Errorf("Lines = %d, want 200", again.Lines())
	}
	_ = again.Close()
}

// fullDisk is a journal file whose disk fills up in the middle of a write.
type fullDisk struct {
	journalFile
	room         int
	syncFails    bool
	truncateFail bool
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return f.journalFile.Write(p)
	}
	n, err := f.journalFile.Write(p[:f.room])
	f.room = 0
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f *fullDisk) Sync() error {
	if f.syncFails {
		return syscall.EIO
	}
	return f.journalFile.Sync()
}

func (f *fullDisk) Truncate(size int64) error {
	if f.truncateFail {
		return syscall.EIO
	}
	return f.journalFile.Truncate(size)
}

func TestFailedAppendTakesItsLineBack(t *testing.T) {
	path, _ := writeJournal(t, 2)
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := &fullDisk{journalFile: j.file, room: 50}
	j.file = disk
	head := j.Head()
	if _, err := j.Append(fields{"text": strings.Repeat("x", 100)}, Durable); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Append = %v, want ENOSPC", err)
	}
	if j.Head() != head || j.Lines() != 2 {
		t.Errorf("Head and Lines moved to %s, %d", j.Head(), j.Lines())
	}
	disk.room = 1 << 20
	if _, err := j.Append(fields{"kind": "later"}, Durable); err != nil {
		t.Errorf("Append with room again = %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenJournal(path)
	if err != nil {
		t.Fatalf("the journal is damaged: %v", err)
	}
	_ = again.Close()
}

func TestJournalIsBrokenWhenItsEndIsUnknown(t *testing.T) {
	tests := []struct {
		name string
		disk fullDisk
	}{
		{"the sync failed", fullDisk{room: 1 << 20, syncFails: true}},
		{"a torn line could not be taken back", fullDisk{room: 10, truncateFail: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := writeJournal(t, 1)
			j, err := OpenJournal(path)
			if err != nil {
				t.Fatal(err)
			}
			disk := tt.disk
			disk.journalFile = j.file
			j.file = &disk
			for range 2 {
				if _, err := j.Append(fields{"kind": "note"}, Durable); err == nil {
					t.Error("Append succeeded")
				}
				disk = fullDisk{journalFile: disk.journalFile, room: 1 << 20}
			}
			_ = j.Close()
		})
	}
}

func TestAppendNoticesAnotherWriter(t *testing.T) {
	path, _ := writeJournal(t, 1)
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, "{}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(fields{"kind": "note"}, Durable); err == nil {
		t.Error("Append wrote behind lines that are not its own")
	}
}

func TestClosedJournal(t *testing.T) {
	path, _ := writeJournal(t, 1)
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := j.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	if _, err := j.Append(fields{}, Buffered); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append = %v, want closed", err)
	}
}

func TestOpenJournalRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "target"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "fifo", "."} {
		if _, err := OpenJournal(filepath.Join(dir, name)); err == nil {
			t.Errorf("OpenJournal(%s) succeeded", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the symlink was written through")
	}
}

// FuzzReadJournal: no bytes make the reader fail in another way than with a damaged line, and what it accepts as chained,
// written again line by line, is the same file.
func FuzzReadJournal(f *testing.F) {
	_, lines := writeJournal(f, 4)
	f.Add([]byte(strings.Join(lines, "")))
	f.Add([]byte(strings.Join(lines[:2], "")))
	f.Add([]byte("{\"kind\":\"a\"}\n\n{}"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		var again strings.Builder
		read, err := ReadJournal(strings.NewReader(string(data)), func(l JournalLine) error {
			again.Write(l.Raw)
			again.WriteByte('\n')
			return nil
		})
		var damaged *DamagedError
		if err != nil && !errors.As(err, &damaged) {
			t.Fatalf("ReadJournal = %v", err)
		}
		if err == nil && read.Chained && again.String() != string(data) {
			t.Errorf("accepted %q, which reads as %q", data, again.String())
		}
	})
}

func ExampleReadJournal() {
	text := `{"kind":"note","seq":0,"writtenAt":"2026-11-30T10:00:00.000Z","prev":"` + noLine + `"}` + "\n" + `{"kind":"no`
	_, err := ReadJournal(strings.NewReader(text), func(l JournalLine) error {
		fmt.Println("line", l.Number)
		return nil
	})
	fmt.Println(err)
	// Output:
	// line 1
	// line 2 is damaged: it is not a JSON object
}
