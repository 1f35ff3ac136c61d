"""The guardian of a job: the parent of its ranks, in a process that nothing else happens in.

The first rank waits for it, so it imports little: its modules go without ``typing``. It

* starts every rank in a session of its own, with SIGKILL as its signal for the guardian's death;
* notices ends by SIGCHLD, and stops everyone at the first end that is no success;
* adopts what ranks leave behind (it is a subreaper, prctl(2)), so that every process of the job is
  below it, whatever happened to the processes between;
* hears from the launcher through a socket, and stops everyone when that is closed;
* leaves when it has no child, which for a subreaper means that no process of the job lives.

``launcher.guarding`` is the launcher's side of it.
"""
