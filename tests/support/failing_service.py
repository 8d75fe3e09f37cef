"""`specguide serve` whose engine fails in an iteration of a request of 13 prompt tokens; each of
its processes runs this file anew, most of them without torch."""

from specguide.scheduler import Scheduler

schedule = Scheduler.schedule


def fail(self, **options):
    answer = schedule(self, **options)
    if any(len(request.prompt_ids) == 13 for request in answer.requests):
        raise RuntimeError("thirteen")
    return answer


Scheduler.schedule = fail

if __name__ == "__main__":
    from specguide.cli import main

    main()
