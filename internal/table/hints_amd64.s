#include "textflag.h"

// func touch(shard, slot unsafe.Pointer)
TEXT ·touch(SB), NOSPLIT, $0-16
	MOVQ shard+0(FP), AX
	MOVQ slot+8(FP), BX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	PREFETCHT0 (BX)
	RET

// func fetch(first, last unsafe.Pointer)
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVQ first+0(FP), AX
	MOVQ last+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	RET

// func pause(times uint32)
TEXT ·pause(SB), NOSPLIT, $0-4
	MOVL times+0(FP), AX
again:
	PAUSE
	SUBL $1, AX
	JNZ  again
	RET
