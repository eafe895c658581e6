package storetest

func tables() []law { return nil }
