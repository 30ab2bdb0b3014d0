package mcpgate

var relayExtract = tool{
	name:  "relay_extract",
	title: "Extract declared outputs",
	description: "Brings declared outputs to the host before the end, for you to read. Only names declared at relay_acquire; an empty list brings nothing. Each file is checked by its hash, and every " +
		"call makes fresh copies, so that earlier ones stay. Refused are paths that leave the workspace, symbolic links and sources that change while they are read. " +
		"relay_finish extracts all declared outputs anyway. " + endIt,
	hints:      acts,
	repeatable: true,
	input: object{
		named("the guest that holds the outputs"),
		{Name: "names", Required: true, Doc: "names of declared outputs", Shape: list{Of: text{}}},
	},
	call: decoded(Relay.Extract),
}

var relayFinish = tool{
	name:  "relay_finish",
	title: "Finish and deliver evidence",
	description: "Ends a guest with success: extracts the declared outputs, delivers the evidence as a package, verifies every byte of it, destroys the machine and proves it gone. The answer " +
		"keeps three facts apart: whether the package is delivered and verified, whether the snapshots are complete, and how the runs went. Outputs that were never made are listed and do not stop " +
		"it; any other failure keeps the machine, and the call may be sent again. While a script still runs in the guest it waits half a minute, then refuses and changes nothing. Other guests are not touched. Before you give your answer, call this or relay_release for every guest you acquired.",
	hints:      ending,
	repeatable: true,
	input:      object{named("the guest to finish")},
	call:       decoded(Relay.Finish),
}

var relayRelease = tool{
	name:  "relay_release",
	title: "Release the VM",
	description: "Gives a guest up: destroys its machine and keeps what evidence can be brought over in half a minute, without any claim of success. It also ends a script that still runs. Safe to send again when it failed. Naming a guest that is not held is an error. " +
		"Other guests are not touched. Before you give your answer, call this or relay_finish for every guest you acquired.",
	hints:      ending,
	repeatable: true,
	input:      object{named("the guest to release")},
	call:       decoded(Relay.Release),
}
