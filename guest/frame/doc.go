// Package frame is the archive format that carries many small files from a guest in one transfer. It is uncompressed and
// has exactly one form for a given list of files:
//
//	{"path":"state/a.json","bytes":7}\n
//	...exactly 7 bytes...{"sha256":"..."}\n
//
// and so on, one entry after the other, with no padding, footer or index. The size of an archive follows from the names and
// sizes of its files, so that a reader knows it before asking; the hashes come behind the bytes, so that a writer reads
// each file once. The reader accepts only what the writer would have written.
package frame
