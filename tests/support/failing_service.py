"""`specguide serve` whose engine fails in an iteration of a request of 13 prompt tokens; each of
its processes runs this file anew."""

from specguide.engine.cycle import Cycle

launch = Cycle.launch


def fail(self, batch, requests):
    if any(len(request.prompt_ids) == 13 for request in requests):
        raise RuntimeError("thirteen")
    launch(self, batch, requests)


Cycle.launch = fail

if __name__ == "__main__":
    from specguide.cli import main

    main()
