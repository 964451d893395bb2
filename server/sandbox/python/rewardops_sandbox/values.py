"""Encodes values of built-in types as bytes, and sends them in frames. The decoder builds exact built-in types only."""

import struct

# A message may hold a large list, but must not fill the memory of its receiver.
MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100

_LENGTH = struct.Struct("<I")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")


class UnsupportedType(Exception):
    """Raised for a value whose type cannot be encoded; the message is the type's name."""


class TooLarge(Exception):
    """Raised for a value that is too large or too deep to be encoded."""


class Malformed(Exception):
    """Raised for bytes that are not an encoded value."""


def encode(value):
    """Encodes a value. An instance of a subclass becomes its built-in base type, so overridden methods are lost."""
    parts = []
    _encode(value, parts, [0], 0)
    return b"".join(parts)


def _put(parts, size, *pieces):
    size[0] += sum(map(len, pieces))
    if size[0] > MAX_FRAME_BYTES:
        raise TooLarge(f"more than {MAX_FRAME_BYTES} bytes")
    parts.extend(pieces)


def _encode(value, parts, size, depth):
    if depth > MAX_DEPTH:
        raise TooLarge(f"nested more than {MAX_DEPTH} deep")
    if value is None:
        _put(parts, size, b"N")
    elif value is True:
        _put(parts, size, b"T")
    elif value is False:
        _put(parts, size, b"F")
    elif isinstance(value, int):
        number = int.__index__(value)
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        _put(parts, size, b"i", _LENGTH.pack(len(data)), data)
    elif isinstance(value, float):
        _put(parts, size, b"f", _FLOAT.pack(float.__float__(value)))
    elif isinstance(value, complex):
        _put(parts, size, b"c", _COMPLEX.pack(complex.real.__get__(value), complex.imag.__get__(value)))
    elif isinstance(value, str):
        data = str.encode(value, "utf-8", "surrogatepass")
        _put(parts, size, b"s", _LENGTH.pack(len(data)), data)
    elif isinstance(value, (bytes, bytearray)):
        tag = b"b" if isinstance(value, bytes) else b"B"
        data = bytes(memoryview(value))
        _put(parts, size, tag, _LENGTH.pack(len(data)), data)
    elif isinstance(value, range):
        _put(parts, size, b"r")
        for bound in (value.start, value.stop, value.step):
            _encode(bound, parts, size, depth + 1)
    elif isinstance(value, dict):
        _items(b"d", [one for pair in dict.items(value) for one in pair], parts, size, depth)
    else:
        for tag, base in ((b"l", list), (b"t", tuple), (b"S", set), (b"Z", frozenset)):
            if isinstance(value, base):
                _items(tag, list(base.__iter__(value)), parts, size, depth)
                return
        if hasattr(type(value), "__index__"):
            _encode(type(value).__index__(value), parts, size, depth)
        elif hasattr(type(value), "__next__"):
            _items(b"I", _first_items(value), parts, size, depth)
        else:
            raise UnsupportedType(type(value).__name__)


def _first_items(iterator):
    """All items of an iterator. Raises TooLarge for more than a frame can hold."""
    items = []
    for item in iterator:
        items.append(item)
        if len(items) > MAX_FRAME_BYTES:
            raise TooLarge("an iterator without end")
    return items


def _items(tag, items, parts, size, depth):
    _put(parts, size, tag, _LENGTH.pack(len(items)))
    for item in items:
        _encode(item, parts, size, depth + 1)


def decode(data):
    """Decodes the bytes of `encode`. Raises Malformed for any other bytes."""
    try:
        value, at = _decode(data, 0, 0)
    except (IndexError, struct.error, TypeError, UnicodeDecodeError, ValueError, OverflowError):
        raise Malformed("not an encoded value") from None
    if at != len(data):
        raise Malformed("bytes after the value")
    return value


def _decode(data, at, depth):
    if depth > MAX_DEPTH:
        raise Malformed("nested too deep")
    tag = data[at : at + 1]
    at += 1
    if tag == b"N":
        return None, at
    if tag == b"T":
        return True, at
    if tag == b"F":
        return False, at
    if tag == b"f":
        return _FLOAT.unpack_from(data, at)[0], at + 8
    if tag == b"c":
        return complex(*_COMPLEX.unpack_from(data, at)), at + 16
    if tag == b"r":
        bounds = []
        for _ in range(3):
            bound, at = _decode(data, at, depth + 1)
            bounds.append(bound)
        return range(*bounds), at
    length = _LENGTH.unpack_from(data, at)[0]
    at += 4
    if tag in (b"i", b"s", b"b", b"B"):
        piece = data[at : at + length]
        if len(piece) != length:
            raise Malformed("cut off")
        at += length
        if tag == b"i":
            return int.from_bytes(piece, "little", signed=True), at
        if tag == b"s":
            return piece.decode("utf-8", "surrogatepass"), at
        return (piece if tag == b"b" else bytearray(piece)), at
    if tag not in (b"l", b"t", b"S", b"Z", b"d", b"I") or length > len(data):
        raise Malformed("no such type")
    items = []
    for _ in range(length):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == b"l":
        return items, at
    if tag == b"t":
        return tuple(items), at
    if tag == b"S":
        return set(items), at
    if tag == b"Z":
        return frozenset(items), at
    if tag == b"I":
        return iter(items), at
    return dict(zip(items[::2], items[1::2], strict=True)), at


def send(channel, value):
    data = encode(value)
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel):
    """The next value from a socket, or None at the end of the stream. Raises Malformed for an invalid frame."""
    head = receive_exactly(channel, 4)
    if head is None:
        return None
    length = _LENGTH.unpack(head)[0]
    if length > MAX_FRAME_BYTES:
        raise Malformed("too long")
    data = receive_exactly(channel, length)
    return None if data is None else decode(data)


def receive_exactly(channel, count):
    """Reads `count` bytes from a socket. Returns None if the stream ends earlier."""
    data = bytearray()
    while len(data) < count:
        piece = channel.recv(min(count - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)
