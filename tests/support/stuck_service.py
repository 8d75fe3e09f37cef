"""`specguide serve` whose /tokenize holds a thread; each of its processes runs this file anew."""

import time

from specguide.server.apis import plain_routes

plain_routes._tokens = lambda *_: time.sleep(60)

if __name__ == "__main__":
    from specguide.cli import main

    main()
