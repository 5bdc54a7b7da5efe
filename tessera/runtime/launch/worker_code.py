"""Spell the loop of the CPU's threads in LLVM IR: no compiler is needed where it runs but the one that kernels need.

The list of launches that want threads is guarded by a lock without sleep.  Sleep is that of POSIX: before it, a
thread counts itself and looks once more; who brings work, or ends it, looks at the count afterwards.
"""

import platform
from typing import Final

_PAUSES: Final = {"x86_64": "llvm.x86.sse2.pause()", "aarch64": "llvm.aarch64.hint(i32 1)"}
"""What tells a processor that a loop waits."""

_CODE: Final = """
%Launch = type {{ ptr, ptr, i64, i64, i64, ptr, i32, i32, i32, i32, [64 x i8], i64, [120 x i8], i32, [60 x i8] }}
%Pool = type {{ i32, [124 x i8], ptr, [120 x i8], i32, i32, [56 x i8], i32, [60 x i8],
               [128 x i8], [128 x i8], [128 x i8], [128 x i8] }}
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)

define internal void @pause() alwaysinline {{
  {pause}
  ret void
}}

define void @open(ptr %pool) {{
  %sleep = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %work = getelementptr %Pool, ptr %pool, i32 0, i32 10
  %wait = getelementptr %Pool, ptr %pool, i32 0, i32 11
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 12
  call i32 @pthread_mutex_init(ptr %sleep, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  call i32 @pthread_mutex_init(ptr %wait, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}}

; The lock of the list is held for some instructions; who held it may have lost its core, so others give theirs away.
define internal void @lock(ptr %pool) {{
entry:
  br label %try
try:
  %held = atomicrmw xchg ptr %pool, i32 1 acquire
  %free = icmp eq i32 %held, 0
  br i1 %free, label %mine, label %again
again:
  %n = phi i32 [ 0, %try ], [ %next, %spin ]
  %next = add i32 %n, 1
  %state = load atomic i32, ptr %pool monotonic, align 4
  %open = icmp eq i32 %state, 0
  br i1 %open, label %try, label %look
look:
  %long = icmp sgt i32 %n, 200
  br i1 %long, label %give, label %spin
give:
  call i32 @sched_yield()
  br label %spin
spin:
  call void @pause()
  br label %again
mine:
  ret void
}}

; Take a launch out of the list, if it is there, so that no more threads begin.  Inside the lock.
define internal void @withhold(ptr %pool, ptr %launch) {{
entry:
  %head = getelementptr %Pool, ptr %pool, i32 0, i32 2
  %wanted = getelementptr %Launch, ptr %launch, i32 0, i32 6
  store i32 0, ptr %wanted
  %place = getelementptr %Launch, ptr %launch, i32 0, i32 5
  %following = load ptr, ptr %place
  br label %look
look:
  %at = phi ptr [ %head, %entry ], [ %link, %step ]
  %here = load ptr, ptr %at
  %found = icmp eq ptr %here, %launch
  br i1 %found, label %remove, label %onward
onward:
  %last = icmp eq ptr %here, null
  br i1 %last, label %out, label %step
step:
  %link = getelementptr %Launch, ptr %here, i32 0, i32 5
  br label %look
remove:
  store atomic ptr %following, ptr %at seq_cst, align 8
  br label %out
out:
  ret void
}}

; Run chunks until none is left, or the launch is cancelled.
define internal void @chunks(ptr %launch, ptr %scratch) {{
entry:
  %entry.at = getelementptr %Launch, ptr %launch, i32 0, i32 0
  %slots.at = getelementptr %Launch, ptr %launch, i32 0, i32 1
  %groups.at = getelementptr %Launch, ptr %launch, i32 0, i32 2
  %chunk.at = getelementptr %Launch, ptr %launch, i32 0, i32 3
  %begun = getelementptr %Launch, ptr %launch, i32 0, i32 11
  %cancel = getelementptr %Launch, ptr %launch, i32 0, i32 13
  %code = load ptr, ptr %entry.at
  %slots = load ptr, ptr %slots.at
  %groups = load i64, ptr %groups.at
  %chunk = load i64, ptr %chunk.at
  br label %look
look:
  %flag = load atomic i32, ptr %cancel monotonic, align 4
  %stopped = icmp ne i32 %flag, 0
  br i1 %stopped, label %out, label %take
take:
  %first = atomicrmw add ptr %begun, i64 %chunk monotonic
  %none = icmp sge i64 %first, %groups
  br i1 %none, label %out, label %run
run:
  %end = add i64 %first, %chunk
  %over = icmp sgt i64 %end, %groups
  %past = select i1 %over, i64 %groups, i64 %end
  call i32 %code(ptr %slots, i64 %first, i64 %past, ptr %scratch, ptr %cancel)
  br label %look
out:
  ret void
}}

; The life of a thread; it ends when the pool is closed and nothing is left to begin.
define void @serve(ptr %pool, i64 %patience) {{
entry:
  %memory = alloca ptr
  %room = alloca i64
  store ptr null, ptr %memory
  store i64 0, ptr %room
  %head = getelementptr %Pool, ptr %pool, i32 0, i32 2
  %sleepers = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %closed = getelementptr %Pool, ptr %pool, i32 0, i32 5
  %sleep = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %work = getelementptr %Pool, ptr %pool, i32 0, i32 10
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %next, %spin ], [ 0, %none ], [ 0, %finish ], [ 0, %tell ]
  %next = add i64 %n, 1
  %seen = load atomic ptr, ptr %head acquire, align 8
  %some = icmp ne ptr %seen, null
  br i1 %some, label %claim, label %patient
patient:
  %tired = icmp sge i64 %n, %patience
  br i1 %tired, label %rest, label %spin
spin:
  call void @pause()
  br label %look
rest:
  call i32 @pthread_mutex_lock(ptr %sleep)
  atomicrmw add ptr %sleepers, i32 1 seq_cst
  br label %check
check:
  %now = load atomic ptr, ptr %head seq_cst, align 8
  %new = icmp ne ptr %now, null
  %ending = load atomic i32, ptr %closed seq_cst, align 4
  %end = icmp ne i32 %ending, 0
  %awake = or i1 %new, %end
  br i1 %awake, label %rise, label %doze
doze:
  call i32 @pthread_cond_wait(ptr %work, ptr %sleep)
  br label %check
rise:
  atomicrmw sub ptr %sleepers, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %sleep)
  br i1 %new, label %claim, label %out
claim:
  call void @lock(ptr %pool)
  %launch = load ptr, ptr %head
  %gone = icmp eq ptr %launch, null
  br i1 %gone, label %none, label %begin
none:
  store atomic i32 0, ptr %pool release, align 4
  br label %look
begin:
  %working = getelementptr %Launch, ptr %launch, i32 0, i32 7
  %before = load i32, ptr %working
  %more = add i32 %before, 1
  store i32 %more, ptr %working
  %wanted = getelementptr %Launch, ptr %launch, i32 0, i32 6
  %wish = load i32, ptr %wanted
  %left = sub i32 %wish, 1
  store i32 %left, ptr %wanted
  %enough = icmp sle i32 %left, 0
  br i1 %enough, label %full, label %begun
full:
  call void @withhold(ptr %pool, ptr %launch)
  br label %begun
begun:
  store atomic i32 0, ptr %pool release, align 4
  %need.at = getelementptr %Launch, ptr %launch, i32 0, i32 4
  %need = load i64, ptr %need.at
  %have = load i64, ptr %room
  %short = icmp sgt i64 %need, %have
  br i1 %short, label %grow, label %run
grow:
  %old = load ptr, ptr %memory
  call void @free(ptr %old)
  store ptr null, ptr %memory
  store i64 0, ptr %room
  %status = call i32 @posix_memalign(ptr %memory, i64 64, i64 %need)
  %made = icmp eq i32 %status, 0
  br i1 %made, label %grown, label %failed
grown:
  store i64 %need, ptr %room
  br label %run
failed:
  store ptr null, ptr %memory
  %failure = getelementptr %Launch, ptr %launch, i32 0, i32 9
  store i32 1, ptr %failure
  %cancel = getelementptr %Launch, ptr %launch, i32 0, i32 13
  store atomic i32 1, ptr %cancel monotonic, align 4
  br label %finish
run:
  %scratch = load ptr, ptr %memory
  call void @chunks(ptr %launch, ptr %scratch)
  br label %finish
finish:
  call void @lock(ptr %pool)
  call void @withhold(ptr %pool, ptr %launch)
  %busy = load i32, ptr %working
  %rest.of = sub i32 %busy, 1
  store i32 %rest.of, ptr %working
  %over = icmp eq i32 %rest.of, 0
  %finished = getelementptr %Launch, ptr %launch, i32 0, i32 8
  %end.state = zext i1 %over to i32
  store atomic i32 %end.state, ptr %finished seq_cst, align 4
  store atomic i32 0, ptr %pool release, align 4
  br i1 %over, label %tell, label %look
tell:
  call void @tell(ptr %pool)
  br label %look
out:
  %rest.memory = load ptr, ptr %memory
  call void @free(ptr %rest.memory)
  ret void
}}

; Wake the callers that sleep until a launch has ended.  The launch itself may be gone.
define internal void @tell(ptr %pool) {{
entry:
  %waiters = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %count = load atomic i32, ptr %waiters seq_cst, align 4
  %some = icmp ne i32 %count, 0
  br i1 %some, label %wake, label %out
wake:
  %wait = getelementptr %Pool, ptr %pool, i32 0, i32 11
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 12
  call i32 @pthread_mutex_lock(ptr %wait)
  call i32 @pthread_mutex_unlock(ptr %wait)
  call i32 @pthread_cond_broadcast(ptr %done)
  br label %out
out:
  ret void
}}

; Let a launch begin, and wait.
define i32 @run(ptr %pool, ptr %launch, i64 %patience, i64 %ns) {{
entry:
  %head = getelementptr %Pool, ptr %pool, i32 0, i32 2
  call void @lock(ptr %pool)
  br label %look
look:
  %at = phi ptr [ %head, %entry ], [ %link, %step ]
  %here = load ptr, ptr %at
  %last = icmp eq ptr %here, null
  br i1 %last, label %add, label %step
step:
  %link = getelementptr %Launch, ptr %here, i32 0, i32 5
  br label %look
add:
  %wanted = getelementptr %Launch, ptr %launch, i32 0, i32 6
  %wish = load i32, ptr %wanted
  store atomic ptr %launch, ptr %at seq_cst, align 8
  store atomic i32 0, ptr %pool release, align 4
  call void @wake(ptr %pool, i32 %wish)
  %ended = call i32 @wait(ptr %pool, ptr %launch, i64 %patience, i64 %ns)
  ret i32 %ended
}}

; Wake up to `most` sleeping threads, one after the other: all at once would queue for one mutex.
define internal void @wake(ptr %pool, i32 %most) {{
entry:
  %sleepers = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %first, label %out
first:
  %sleep = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %work = getelementptr %Pool, ptr %pool, i32 0, i32 10
  call i32 @pthread_mutex_lock(ptr %sleep)
  call i32 @pthread_mutex_unlock(ptr %sleep)
  %fewer = icmp slt i32 %asleep, %most
  %count = select i1 %fewer, i32 %asleep, i32 %most
  br label %one
one:
  %n = phi i32 [ 0, %first ], [ %next, %one ]
  %next = add i32 %n, 1
  call i32 @pthread_cond_signal(ptr %work)
  %more = icmp slt i32 %next, %count
  br i1 %more, label %one, label %out
out:
  ret void
}}

; Wait until a launch has ended, for some nanoseconds at most; return whether it has.
define i32 @wait(ptr %pool, ptr %launch, i64 %patience, i64 %ns) {{
entry:
  %until = alloca [2 x i64]
  %finished = getelementptr %Launch, ptr %launch, i32 0, i32 8
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %next, %spin ]
  %next = add i64 %n, 1
  %state = load atomic i32, ptr %finished acquire, align 4
  %over = icmp ne i32 %state, 0
  br i1 %over, label %early, label %patient
early:
  ret i32 1
patient:
  %tired = icmp sge i64 %n, %patience
  br i1 %tired, label %rest, label %spin
spin:
  call void @pause()
  br label %look
rest:
  %seconds.at = getelementptr [2 x i64], ptr %until, i32 0, i32 0
  %part.at = getelementptr [2 x i64], ptr %until, i32 0, i32 1
  call i32 @clock_gettime(i32 0, ptr %until)
  %seconds = load i64, ptr %seconds.at
  %part = load i64, ptr %part.at
  %sum = add i64 %part, %ns
  %whole = udiv i64 %sum, 1000000000
  %left = urem i64 %sum, 1000000000
  %then = add i64 %seconds, %whole
  store i64 %then, ptr %seconds.at
  store i64 %left, ptr %part.at
  %waiters = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %wait = getelementptr %Pool, ptr %pool, i32 0, i32 11
  %done = getelementptr %Pool, ptr %pool, i32 0, i32 12
  call i32 @pthread_mutex_lock(ptr %wait)
  atomicrmw add ptr %waiters, i32 1 seq_cst
  br label %check
check:
  %now = load atomic i32, ptr %finished seq_cst, align 4
  %ended = icmp ne i32 %now, 0
  br i1 %ended, label %leave, label %doze
doze:
  %status = call i32 @pthread_cond_timedwait(ptr %done, ptr %wait, ptr %until)
  %late = icmp ne i32 %status, 0
  br i1 %late, label %leave, label %check
leave:
  atomicrmw sub ptr %waiters, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %wait)
  %last = load atomic i32, ptr %finished seq_cst, align 4
  ret i32 %last
}}

; Cancel a launch, let no more threads begin, and return how many work on it still.
define i32 @withdraw(ptr %pool, ptr %launch) {{
  %cancel = getelementptr %Launch, ptr %launch, i32 0, i32 13
  store atomic i32 1, ptr %cancel monotonic, align 4
  call void @lock(ptr %pool)
  call void @withhold(ptr %pool, ptr %launch)
  %working = getelementptr %Launch, ptr %launch, i32 0, i32 7
  %count = load i32, ptr %working
  store atomic i32 0, ptr %pool release, align 4
  ret i32 %count
}}

; Let threads end when nothing is left to begin.
define void @close(ptr %pool) {{
  %closed = getelementptr %Pool, ptr %pool, i32 0, i32 5
  store atomic i32 1, ptr %closed seq_cst, align 4
  %sleep = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %work = getelementptr %Pool, ptr %pool, i32 0, i32 10
  call i32 @pthread_mutex_lock(ptr %sleep)
  call i32 @pthread_mutex_unlock(ptr %sleep)
  call i32 @pthread_cond_broadcast(ptr %work)
  ret void
}}
"""


def loop_code() -> str:
    """Return the module, for this processor; `worker_loop.py` says what its functions do."""
    pause = _PAUSES.get(platform.machine())
    text = _CODE.format(pause="" if pause is None else f"call void @{pause}")
    return text if pause is None else f"{text}declare void @{pause.replace(' 1', '')}\n"
