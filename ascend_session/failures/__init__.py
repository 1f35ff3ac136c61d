"""Known failures of the device, its driver and its libraries, with advice.

``classify`` finds them in a text, ``root_cause`` picks the one to act upon, ``translate`` turns a
foreign exception into an error of this package, ``explain`` adds the advice to a foreign exception,
and a ``RetryPolicy`` decides whether another attempt can help. An ``ErrorRecord`` is what a rank
has written about its own exception.
"""
