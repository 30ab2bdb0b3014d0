package namespace

const (
	driverName = "namespace"
	imageHost  = "host"
)
