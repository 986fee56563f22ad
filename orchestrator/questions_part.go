package orchestrator

// questionsPart adds questions and alerts to the engine, and the devices that show them.
func questionsPart() *Part {
	return &Part{
		Name:         "questions",
		Prefix:       DevicePrefix,
		Recipients:   readDevices,
		Secret:       (*tx).pushSecret,
		Tried:        (*tx).pushedTo,
		Gone:         (*tx).deviceGone,
		Pointless:    (*tx).pushIsOver,
		HasDevice:    (*Conn).hasDevice,
		AgentRemoved: (*tx).withdrawQuestions,
	}
}
