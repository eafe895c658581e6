#include "textflag.h"

// func touch(shard, slot unsafe.Pointer)
TEXT ·touch(SB), NOSPLIT, $0-16
	MOVD shard+0(FP), R0
	MOVD slot+8(FP), R1
	PRFM (R0), PSTL1KEEP
	PRFM (R1), PLDL1KEEP
	RET

// func fetch(first, last unsafe.Pointer)
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVD first+0(FP), R0
	MOVD last+8(FP), R1
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	RET

// func pause(times uint32)
TEXT ·pause(SB), NOSPLIT, $0-4
	MOVWU times+0(FP), R0
again:
	ISB  $15 // YIELD takes no time on most
	SUBW $1, R0
	CBNZ R0, again
	RET
