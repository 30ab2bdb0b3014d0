package namespace

const (
	driverName = "namespace"
	imageHost  = "host"

	isolationIDMap = "namespace-idmap" // root in the guest is an id of a range that belongs to nobody
	isolationUser  = "namespace-user"  // root in the guest is the ordinary user who runs the service
)
