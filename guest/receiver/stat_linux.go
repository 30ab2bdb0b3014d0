package receiver

import "golang.org/x/sys/unix"

func changed(st *unix.Stat_t) int64       { return st.Mtim.Nano() }
func statusChanged(st *unix.Stat_t) int64 { return st.Ctim.Nano() }
