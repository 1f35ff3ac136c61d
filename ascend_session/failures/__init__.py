"""Known failures of the device, its driver and its libraries, with advice.

``classify`` finds them in a text, ``root_cause`` picks the one to act upon, ``translate`` makes an
error of this package out of a foreign exception, ``explain`` tells the user of a foreign one what
it means, and a ``RetryPolicy`` says whether another attempt can help. An ``ErrorRecord`` is what a
rank has written of its own exception.
"""
