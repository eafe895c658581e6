#include "textflag.h"

// func touch(address unsafe.Pointer)
TEXT ·touch(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET
