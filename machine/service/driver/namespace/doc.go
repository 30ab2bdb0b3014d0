// Package namespace makes guests out of Linux namespaces: container-grade machines that need neither KVM nor a container
// engine, and work as root and as an ordinary user. A guest shares the host's kernel: a flaw of the kernel is a way out,
// so it is never called a VM.
//
// # Walls
//
// A guest has user, mount, pid, network, ipc, uts and control group namespaces of its own. Started by root, its root is
// the first of 65536 user ids that belong to nobody on the host and to no other guest (isolation namespace-idmap); started
// by an ordinary user, its root is that user, the only id it has (namespace-user). Root in the guest keeps twelve
// capabilities over the guest itself; a system call filter denies mounts, new namespaces, kernel interfaces that guests do
// not need, and socket families other than unix, inet, inet6 and netlink. Its only network interface is loopback.
//
// # What a guest can read
//
// The host's programs, read-only: /usr, /bin, /sbin, /lib*, /opt, /nix/store, /gnu/store with whatever is mounted below,
// and /var/lib/dpkg. In them it reads what any user of the host may read and, started by an ordinary user, what that user
// may: so nothing private belongs into /opt or /usr/local with permission for all. The guest's root does not own these
// files and cannot override their permissions, which is why they are not id-mapped: an id-mapped mount would let it read
// files that only the host's root may. From /etc it has an allowlist of harmless entries, the rest is built anew. Nothing
// else of the host is visible; all it writes goes to memory of a bounded size that ends with it.
//
// # Life
//
// The first process of a guest is a sealed copy in memory of the running program (see IsStage and Main, and the package
// guestinit). It serves a socket in the guest's folder, which only the folder's owner reaches, to whoever knows the nonce.
// It survives the service and answers the next one; nobody renewing it, it ends at the lease's end plus the grace. No
// guest runs that its folder's record does not name: init waits until the record is durable, and ends when the driver
// dies before. A process is signalled only through a pidfd taken before its identity was proved.
//
// A guest's mark, a hash of its service's state folder, stands in the arguments of its init and in the names of its
// control groups, so that Sweep finds what its own service left. The mounts and networks of a guest end with its last
// process; nothing of them is ever on the host.
//
// The names of control groups, and of the folders of checks made without a state folder, also say which process made
// them, by pid, start time and pid namespace. So what is empty because its maker died is told from what is empty because
// its maker is about to fill it, and any service of the user removes the former. Of another service's guests Sweep ends
// none. List and Sweep see what belongs to the user who asks, and nobody else's.
//
// # Limits
//
// Memory, processes and CPU are limited by control groups where they may be written to (package cgroup); where not, the
// facts say which are not limited and why, and processes are limited by RLIMIT_NPROC.
package namespace
