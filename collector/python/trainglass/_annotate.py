"""What `@annotate("name")` makes of a function, a generator or a coroutine."""

import functools


class _Steps:
    """Runs a generator or coroutine with the range open while it runs, and closed while
    it is suspended: other code of the thread is not its child."""

    def __init__(self, annotation, inner):
        self._annotation, self._inner = annotation, inner

    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return self.send(None)

    def send(self, value):
        with self._annotation:
            return self._inner.send(value)

    def throw(self, *error):
        with self._annotation:
            return self._inner.throw(*error)

    def close(self):
        with self._annotation:
            return self._inner.close()


class _AsyncSteps:
    """The same for an asynchronous generator: each of its awaits is one."""

    def __init__(self, annotation, inner):
        self._annotation, self._inner = annotation, inner

    def __aiter__(self):
        return self

    def _around(self, awaitable):
        return _Steps(self._annotation, awaitable.__await__())

    def __anext__(self):
        return self._around(self._inner.__anext__())

    def asend(self, value):
        return self._around(self._inner.asend(value))

    def athrow(self, *error):
        return self._around(self._inner.athrow(*error))

    def aclose(self):
        return self._around(self._inner.aclose())


def decorate(annotation, function):
    """`function` with the annotation around everything that it runs."""
    import inspect  # a third of what importing the package would cost

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*arguments, **words):
            return await _Steps(annotation, function(*arguments, **words))

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def wrapper(*arguments, **words):
            return _AsyncSteps(annotation, function(*arguments, **words))

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*arguments, **words):
            return (yield from _Steps(annotation, function(*arguments, **words)))

    else:

        @functools.wraps(function)
        def wrapper(*arguments, **words):
            with annotation:
                return function(*arguments, **words)

    return wrapper
