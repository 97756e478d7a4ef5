"""The named numbers of Reticulum and LXMF, in one table.

Codes that form a set are :class:`enum.IntEnum` or :class:`enum.IntFlag` classes; single
numbers are module attributes. Sizes are bytes, times are seconds, rates are bit/s unless
the name or the comment says otherwise. :data:`TABLE` holds every number under one flat
name (``"CONTEXT_LRPROOF"``, ``"RESOURCE_WINDOW"``, ``"LXMF_PAPER_MDU"``), for tools that list or
search them. The C core and the pure reference use the same values; a test compares
:data:`TABLE` with the table compiled into the core.

"RNS 1, 4.4" means section 4.4 of the first part of the Reticulum specification, "RNS 2"
the second part, "LXMF" the LXMF specification.

Example:
    >>> from netmesh import constants
    >>> constants.Context(0xFE).name
    'LRRTT'
    >>> constants.TABLE["CONTEXT_LRRTT"] == constants.Context.LRRTT == 0xFE
    True
    >>> constants.ResourceFlag(33)
    <ResourceFlag.ENCRYPTED|METADATA: 33>
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Final

# ---------------------------------------- codes of the packet header


class HeaderType(IntEnum):
    """Bit 6 of the flags byte (RNS 1, 4.2)."""

    HEADER_1 = 0
    """One address: the destination. 19 bytes."""
    HEADER_2 = 1
    """Transport id, then destination. 35 bytes."""


class TransportType(IntEnum):
    """Bit 4 of the flags byte (RNS 1, 4.2)."""

    BROADCAST = 0
    TRANSPORT = 1


class DestinationType(IntEnum):
    """Bits 3 and 2 of the flags byte (RNS 1, 3.1 and 4.2)."""

    SINGLE = 0
    GROUP = 1
    PLAIN = 2
    LINK = 3


class PacketType(IntEnum):
    """Bits 1 and 0 of the flags byte (RNS 1, 4.2)."""

    DATA = 0
    ANNOUNCE = 1
    LINKREQUEST = 2
    PROOF = 3


class PacketFlag(IntFlag):
    """Masks of the flags byte (RNS 1, 4.2)."""

    IFAC = 0x80
    HEADER_2 = 0x40
    CONTEXT = 0x20
    TRANSPORT = 0x10


class Context(IntEnum):
    """The context byte (RNS 1, 4.4; RNS 2, 0.1)."""

    NONE = 0x00
    RESOURCE = 0x01
    RESOURCE_ADV = 0x02
    RESOURCE_REQ = 0x03
    RESOURCE_HMU = 0x04
    RESOURCE_PRF = 0x05
    RESOURCE_ICL = 0x06
    RESOURCE_RCL = 0x07
    CACHE_REQUEST = 0x08
    REQUEST = 0x09
    RESPONSE = 0x0A
    PATH_RESPONSE = 0x0B
    COMMAND = 0x0C
    """Reserved, never sent."""
    COMMAND_STATUS = 0x0D
    """Reserved, never sent."""
    CHANNEL = 0x0E
    KEEPALIVE = 0xFA
    LINKIDENTIFY = 0xFB
    LINKCLOSE = 0xFC
    LINKPROOF = 0xFD
    """Reserved, never sent."""
    LRRTT = 0xFE
    LRPROOF = 0xFF


# ---------------------------------------- destinations, receipts, paths


class Direction(IntEnum):
    """Direction of a destination; local only (RNS 1, 3.1)."""

    IN = 0x11
    OUT = 0x12


class ProofStrategy(IntEnum):
    """Whether a destination proves what it receives (RNS 1, 3.4)."""

    NONE = 0x21
    APP = 0x22
    ALL = 0x23


class RequestPolicy(IntEnum):
    """Who may call a request handler (RNS 2, 2.2)."""

    NONE = 0
    ALL = 1
    LIST = 2


class ReceiptState(IntEnum):
    """State of a packet receipt (RNS 1, 4.9)."""

    FAILED = 0
    SENT = 1
    DELIVERED = 2
    CULLED = 0xFF


class InterfaceMode(IntEnum):
    """Mode of an interface (RNS 1, 8.14)."""

    FULL = 1
    POINT_TO_POINT = 2
    ACCESS_POINT = 3
    ROAMING = 4
    BOUNDARY = 5
    GATEWAY = 6
    INTERNAL = 7


class PathState(IntEnum):
    """What is known of a path (RNS 1, 8.13)."""

    UNKNOWN = 0
    UNRESPONSIVE = 1
    RESPONSIVE = 2


# ---------------------------------------- links and what runs over them


class LinkMode(IntEnum):
    """Encryption mode of a link; only AES256_CBC is enabled (RNS 2, 1.1)."""

    AES128_CBC = 0
    AES256_CBC = 1
    AES256_GCM = 2
    OTP = 3


class LinkState(IntEnum):
    """State of a link (RNS 2, 1.8)."""

    PENDING = 0
    HANDSHAKE = 1
    ACTIVE = 2
    STALE = 3
    CLOSED = 4


class TeardownReason(IntEnum):
    """Why a link was closed (RNS 2, 1.8)."""

    TIMEOUT = 1
    INITIATOR_CLOSED = 2
    DESTINATION_CLOSED = 3


class RequestState(IntEnum):
    """State of a request receipt (RNS 2, 2.4)."""

    FAILED = 0
    SENT = 1
    DELIVERED = 2
    RECEIVING = 3
    READY = 4


class ResourceFlag(IntFlag):
    """Flags of a resource advertisement (RNS 2, 3.3)."""

    ENCRYPTED = 0x01
    COMPRESSED = 0x02
    SPLIT = 0x04
    REQUEST = 0x08
    RESPONSE = 0x10
    METADATA = 0x20


class ResourceState(IntEnum):
    """State of a resource transfer (RNS 2, 3.10)."""

    NONE = 0
    QUEUED = 1
    ADVERTISED = 2
    TRANSFERRING = 3
    AWAITING_PROOF = 4
    ASSEMBLING = 5
    COMPLETE = 6
    FAILED = 7
    CORRUPT = 8
    REJECTED = 9


class ResourceStrategy(IntEnum):
    """Which advertised resources a link accepts (RNS 2, 3.3)."""

    NONE = 0
    APP = 1
    ALL = 2


# ---------------------------------------- LXMF codes


class MessageState(IntEnum):
    """State of an outgoing message (LXMF 2.5)."""

    GENERATING = 0x00
    OUTBOUND = 0x01
    SENDING = 0x02
    SENT = 0x04
    DELIVERED = 0x08
    REJECTED = 0xFD
    CANCELLED = 0xFE
    FAILED = 0xFF


class Method(IntEnum):
    """Delivery method of a message (LXMF 2.5)."""

    UNKNOWN = 0x00
    OPPORTUNISTIC = 0x01
    DIRECT = 0x02
    PROPAGATED = 0x03
    PAPER = 0x05


class Representation(IntEnum):
    """What carries a message (LXMF 2.5)."""

    UNKNOWN = 0x00
    PACKET = 0x01
    RESOURCE = 0x02
    PAPER = 0x05


class Unverified(IntEnum):
    """Why a received message is not verified (LXMF 2.4)."""

    VERIFIED = 0x00
    SOURCE_UNKNOWN = 0x01
    SIGNATURE_INVALID = 0x02


class Field(IntEnum):
    """Ids of message fields (LXMF 13.1)."""

    EMBEDDED_LXMS = 0x01
    TELEMETRY = 0x02
    TELEMETRY_STREAM = 0x03
    ICON_APPEARANCE = 0x04
    FILE_ATTACHMENTS = 0x05
    IMAGE = 0x06
    AUDIO = 0x07
    THREAD = 0x08
    COMMANDS = 0x09
    RESULTS = 0x0A
    GROUP = 0x0B
    TICKET = 0x0C
    EVENT = 0x0D
    RNR_REFS = 0x0E
    RENDERER = 0x0F
    REPLY_TO = 0x30
    REPLY_QUOTE = 0x31
    REACTION = 0x40
    COMMENT = 0x41
    CONTINUATION = 0x42
    CUSTOM_TYPE = 0xFB
    CUSTOM_DATA = 0xFC
    CUSTOM_META = 0xFD
    NON_SPECIFIC = 0xFE
    DEBUG = 0xFF


class Renderer(IntEnum):
    """How the content of a message is to be rendered (LXMF 13.1)."""

    PLAIN = 0x00
    MICRON = 0x01
    MARKDOWN = 0x02
    BBCODE = 0x03


class AudioMode(IntEnum):
    """Codec and mode of an audio field (LXMF 13.1)."""

    CODEC2_450PWB = 0x01
    CODEC2_450 = 0x02
    CODEC2_700C = 0x03
    CODEC2_1200 = 0x04
    CODEC2_1300 = 0x05
    CODEC2_1400 = 0x06
    CODEC2_1600 = 0x07
    CODEC2_2400 = 0x08
    CODEC2_3200 = 0x09
    OPUS_OGG = 0x10
    OPUS_LBW = 0x11
    OPUS_MBW = 0x12
    OPUS_PTT = 0x13
    OPUS_RT_HDX = 0x14
    OPUS_RT_FDX = 0x15
    OPUS_STANDARD = 0x16
    OPUS_HQ = 0x17
    OPUS_BROADCAST = 0x18
    OPUS_LOSSLESS = 0x19
    CUSTOM = 0xFF


class NodeMeta(IntEnum):
    """Keys of the metadata of a propagation announce (LXMF 5.2)."""

    VERSION = 0x00
    NAME = 0x01
    SYNC_STRATUM = 0x02
    SYNC_THROTTLE = 0x03
    AUTH_BAND = 0x04
    UTIL_PRESSURE = 0x05
    IMPL_NAME = 0xFE
    CUSTOM = 0xFF


class PeerError(IntEnum):
    """One-byte answers of a propagation node (LXMF 9.2)."""

    NO_IDENTITY = 0xF0
    NO_ACCESS = 0xF1
    INVALID_KEY = 0xF3
    INVALID_DATA = 0xF4
    INVALID_STAMP = 0xF5
    THROTTLED = 0xF6
    NOT_FOUND = 0xFD
    TIMEOUT = 0xFE
    """Local only."""


class PeerState(IntEnum):
    """State of the synchronisation with a peer (LXMF 9.1)."""

    IDLE = 0
    LINK_ESTABLISHING = 1
    LINK_READY = 2
    REQUEST_SENT = 3
    RESPONSE_RECEIVED = 4
    RESOURCE_TRANSFERRING = 5


class SyncStrategy(IntEnum):
    """How eagerly a node offers to a peer (LXMF 9.1)."""

    LAZY = 0x01
    PERSISTENT = 0x02


class SyncState(IntEnum):
    """State of a client's download from its node (LXMF 10.2)."""

    IDLE = 0x00
    PATH_REQUESTED = 0x01
    LINK_ESTABLISHING = 0x02
    LINK_ESTABLISHED = 0x03
    REQUEST_SENT = 0x04
    RECEIVING = 0x05
    RESPONSE_RECEIVED = 0x06
    COMPLETE = 0x07
    NO_PATH = 0xF0
    LINK_FAILED = 0xF1
    TRANSFER_FAILED = 0xF2
    NO_IDENTITY_RCVD = 0xF3
    NO_ACCESS = 0xF4
    FAILED = 0xFE


class OfferState(IntEnum):
    """Where an accepted offer stands on the node that received it (LXMF 9.4)."""

    UNKNOWN = 0
    ACCEPTED = 1
    TRANSFERRING = 2
    VALIDATING = 3


# ---------------------------------------- sizes, in bytes (RNS 1, 0.1)

MTU: Final = 500
"""Largest packet before the interface access code; of all packets that are not on a link."""
HEADER_1_SIZE: Final = 19
HEADER_2_SIZE: Final = 35
PACKET_MIN: Final = 20
"""Smallest valid packet: a short header and one byte of data."""
IFAC_SIZE_MIN: Final = 1
IFAC_SIZE_MAX: Final = 64
MDU: Final = 464
"""Data that fits a packet with either header."""
PLAIN_MDU: Final = 464
ENCRYPTED_MDU: Final = 383
"""Plaintext of a SINGLE packet."""
LINK_MDU: Final = 431
"""Plaintext of a link packet at an MTU of 500."""
HASH_SIZE: Final = 32
ADDRESS_SIZE: Final = 16
"""Every address: destination hash, identity hash, link id, transport id."""
NAME_HASH_SIZE: Final = 10
KEY_SIZE: Final = 32
"""One key of either curve, private or public."""
PUBLIC_SIZE: Final = 64
"""Public key of an identity: X25519, then Ed25519."""
PRIVATE_SIZE: Final = 64
SIGNATURE_SIZE: Final = 64
TOKEN_OVERHEAD: Final = 48
AES_BLOCK: Final = 16
TOKEN_KEY_SIZE: Final = 64
TOKEN_KEY_SIZE_128: Final = 32
RATCHET_SIZE: Final = 32
RATCHET_ID_SIZE: Final = 10
RANDOM_BLOB_SIZE: Final = 10
"""Random hash of an announce: five random bytes, five bytes of time."""
ANNOUNCE_MIN: Final = 148
ANNOUNCE_MIN_RATCHET: Final = 180
ANNOUNCE_APP_DATA_MAX: Final = 333
"""App data without ratchet that reaches direct neighbours (RNS 1, 5.4)."""
ANNOUNCE_APP_DATA_RELAYED: Final = 317
"""App data without ratchet that relays can pass on (RNS 1, 5.4)."""
PROOF_IMPLICIT_SIZE: Final = 64
PROOF_EXPLICIT_SIZE: Final = 96
SIGNALLING_SIZE: Final = 3
LINK_REQUEST_SIZE: Final = 64
LINK_PROOF_SIZE: Final = 96
LINK_MTU_MAX: Final = 0x1FFFFF
LINK_IDENTIFY_SIZE: Final = 128
TUNNEL_SIZE: Final = 176
TAG_SIZE: Final = 16
LOCAL_FRAME_MAX: Final = 262144
KEEPALIVE_INITIATOR: Final = 0xFF
KEEPALIVE_RESPONDER: Final = 0xFE

# ---------------------------------------- limits and counts

HOPS_MAX: Final = 128
HOPS_UNKNOWN: Final = 128
BITRATE_MIN: Final = 5
ANNOUNCE_QUEUE_MAX: Final = 4096
ANNOUNCE_HELD_MAX: Final = 256
RANDOM_BLOBS_MAX: Final = 64
RATCHETS_RETAINED: Final = 512
RECEIPTS_MAX: Final = 1024
REBROADCASTS_LOCAL_MAX: Final = 2
REBROADCAST_RETRIES: Final = 1

# ---------------------------------------- channels (RNS 2, 4)

CHANNEL_WINDOW: Final = 2
CHANNEL_WINDOW_MIN: Final = 2
CHANNEL_WINDOW_MAX_SLOW: Final = 5
CHANNEL_WINDOW_MAX_MEDIUM: Final = 12
CHANNEL_WINDOW_MAX_FAST: Final = 48
CHANNEL_WINDOW_MIN_MEDIUM: Final = 5
CHANNEL_WINDOW_MIN_FAST: Final = 16
CHANNEL_WINDOW_FLEXIBILITY: Final = 4
CHANNEL_RATE_ROUNDS: Final = 10
CHANNEL_TRIES_MAX: Final = 5
CHANNEL_MDU_MAX: Final = 65535
CHANNEL_HEADER_SIZE: Final = 6
CHANNEL_RESERVED: Final = 0xF000
"""Message types from here on are not for applications."""
CHANNEL_STREAM_DATA: Final = 0xFF00
"""The message type of stream data."""
STREAM_ID_MAX: Final = 16383
STREAM_CHUNK_MAX: Final = 16384
STREAM_HEADER_SIZE: Final = 2
STREAM_EOF: Final = 0x8000
STREAM_COMPRESSED: Final = 0x4000

# ---------------------------------------- resources (RNS 2, 3.1)

RESOURCE_WINDOW: Final = 4
RESOURCE_WINDOW_MIN: Final = 2
RESOURCE_WINDOW_MAX_SLOW: Final = 10
RESOURCE_WINDOW_MAX_VERY_SLOW: Final = 4
RESOURCE_WINDOW_MAX_FAST: Final = 75
RESOURCE_WINDOW_FLEXIBILITY: Final = 4
RESOURCE_FAST_ROUNDS: Final = 4
RESOURCE_VERY_SLOW_ROUNDS: Final = 2
RESOURCE_RATE_FAST: Final = 6250
"""Bytes a second."""
RESOURCE_RATE_VERY_SLOW: Final = 250
"""Bytes a second."""
RESOURCE_MAPHASH_SIZE: Final = 4
RESOURCE_RANDOM_SIZE: Final = 4
RESOURCE_PREFIX_SIZE: Final = 4
RESOURCE_PROOF_SIZE: Final = 64
RESOURCE_HASHMAP_MAX: Final = 74
RESOURCE_COLLISION_GUARD: Final = 224
RESOURCE_SEGMENT_MAX: Final = 1048575
RESOURCE_METADATA_MAX: Final = 16777215
RESOURCE_COMPRESS_MAX: Final = 67108864
RESOURCE_OUTPUT_MAX: Final = 67108864
RESOURCE_TRANSFER_MAX: Final = 3145725
RESOURCE_SDU_OVERHEAD: Final = 36
"""A part is this much smaller than the MTU of its link."""
RESOURCE_PART_FACTOR: Final = 4
RESOURCE_PART_FACTOR_RTT: Final = 2
RESOURCE_PROOF_FACTOR: Final = 3
RESOURCE_RETRIES_MAX: Final = 16
RESOURCE_ADV_RETRIES_MAX: Final = 4
RESOURCE_HMU_FACTOR: Final = 3.5
RESOURCE_SENDER_GRACE: Final = 10.0
RESOURCE_PROCESSING_GRACE: Final = 1.0
RESOURCE_RETRY_GRACE: Final = 0.25
RESOURCE_RETRY_DELAY: Final = 0.5

# ---------------------------------------- times, in seconds

PER_HOP_TIMEOUT: Final = 6.0
TRAFFIC_TIMEOUT_FACTOR: Final = 6.0
LINK_RECEIPT_MIN: Final = 0.005
RESPONSE_TIME_MAX: Final = 10.0
RESPONSE_TIME_FACTOR: Final = 1.125
KEEPALIVE_MAX: Final = 360.0
KEEPALIVE_MIN: Final = 5.0
KEEPALIVE_RTT_MAX: Final = 1.75
STALE_FACTOR: Final = 2.0
STALE_GRACE: Final = 5.0
RESPONDER_GRACE: Final = 360.0
CHANNEL_RTT_FAST: Final = 0.18
CHANNEL_RTT_MEDIUM: Final = 0.75
CHANNEL_RTT_SLOW: Final = 1.45
ANNOUNCE_CAP: Final = 0.02
"""Fraction of the bitrate that relayed announces may use (RNS 1, 8.8)."""
ANNOUNCE_QUEUE_LIFE: Final = 10800.0
ANNOUNCE_RATE_TARGET: Final = 3600.0
ANNOUNCE_REUSE: Final = 30.0
PATH_LIFE: Final = 604800.0
PATH_LIFE_ACCESS_POINT: Final = 86400.0
PATH_LIFE_ROAMING: Final = 21600.0
PATH_REQUEST_TIMEOUT: Final = 15.0
PATH_REQUEST_INTERVAL: Final = 20.0
PATH_REQUEST_GRACE: Final = 0.4
PATH_REQUEST_ROAMING_GRACE: Final = 1.5
PATH_REQUEST_IN_FLIGHT: Final = 45.0
REBROADCAST_JITTER: Final = 0.5
REBROADCAST_DELAY: Final = 5.0
REVERSE_LIFE: Final = 480.0
LINK_TABLE_LIFE: Final = 900.0
TUNNEL_LIFE: Final = 28800.0
RATCHET_INTERVAL: Final = 1800.0
RATCHET_LIFE: Final = 2592000.0
MANAGEMENT_INTERVAL: Final = 7200.0

# ---------------------------------------- automatic discovery (RNS 1, 7.5)

AUTO_GROUP_ID: Final = "reticulum"
AUTO_DISCOVERY_PORT: Final = 29716
AUTO_UNICAST_PORT: Final = 29717
AUTO_DATA_PORT: Final = 42671

# ---------------------------------------- LXMF sizes, in bytes (LXMF 3.1)

LXMF_APP_NAME: Final = "lxmf"
LXMF_URI_SCHEMA: Final = "lxm"
LXMF_HEADER_SIZE: Final = 96
"""Destination hash, source hash and signature."""
LXMF_PACKED_MIN: Final = 111
"""A message with float timestamp and empty title, content and fields."""
LXMF_TIMESTAMP_SIZE: Final = 8
LXMF_STRUCT_OVERHEAD: Final = 8
LXMF_OVERHEAD: Final = 112
LXMF_STAMP_SIZE: Final = 32
LXMF_TICKET_SIZE: Final = 16
LXMF_ENCRYPTED_PACKET_MDU: Final = 383
LXMF_ENCRYPTED_PACKET_MAX_CONTENT: Final = 287
LXMF_LINK_PACKET_MDU: Final = 431
LXMF_LINK_PACKET_MAX_CONTENT: Final = 319
LXMF_PLAIN_PACKET_MDU: Final = 464
LXMF_PLAIN_PACKET_MAX_CONTENT: Final = 368
LXMF_OPPORTUNISTIC_ACCEPT_MAX: Final = 391
"""Longest opportunistic plaintext of older senders, to be accepted (LXMF 3.2)."""
LXMF_QR_MAX_STORAGE: Final = 2953
LXMF_QR_ERROR_CORRECTION: Final = "L"
LXMF_PAPER_MDU: Final = 2210

# ---------------------------------------- LXMF stamps, costs, tickets

LXMF_ROUNDS_MESSAGE: Final = 3000
LXMF_ROUNDS_PROPAGATION: Final = 1000
LXMF_ROUNDS_PEERING: Final = 25
LXMF_COST_TICKET: Final = 256
"""Value of a stamp made from a ticket (LXMF 7)."""
LXMF_STAMP_COST_MIN: Final = 1
LXMF_STAMP_COST_MAX: Final = 254
LXMF_PROPAGATION_COST: Final = 16
LXMF_PROPAGATION_COST_MIN: Final = 13
LXMF_PROPAGATION_COST_FLEX: Final = 3
LXMF_PEERING_COST: Final = 18
LXMF_PEERING_COST_MAX: Final = 26
LXMF_TICKET_EXPIRY_S: Final = 1814400
LXMF_TICKET_RENEW_S: Final = 1209600
LXMF_TICKET_INTERVAL_S: Final = 86400
LXMF_TICKET_GRACE_S: Final = 432000
LXMF_STAMP_COST_EXPIRY_S: Final = 3888000

# ---------------------------------------- LXMF announces and fields

LXMF_SF_COMPRESSION: Final = 0x00
"""Functionality code: receives bzip2-compressed resources (LXMF 5.1)."""
LXMF_REACTION_TO: Final = 0x00
LXMF_REACTION_CONTENT: Final = 0x01
LXMF_COMMENT_FOR: Final = 0x00
LXMF_CONTINUATION_OF: Final = 0x00

# ---------------------------------------- LXMF limits, in kB of 1000 bytes

LXMF_DELIVERY_LIMIT_KB: Final = 1000
LXMF_PROPAGATION_LIMIT_KB: Final = 256
LXMF_SYNC_LIMIT_KB: Final = 10240

# ---------------------------------------- LXMF router (LXMF 4.6, 9, 15)

LXMF_PROCESSING_INTERVAL_S: Final = 4
LXMF_MAX_DELIVERY_ATTEMPTS: Final = 5
LXMF_DELIVERY_RETRY_WAIT_S: Final = 10
LXMF_PATH_REQUEST_WAIT_S: Final = 7
LXMF_PATH_REQUEST_DEBOUNCE_S: Final = 60
LXMF_SLOW_INTERFACE_BITRATE: Final = 2000
LXMF_AIRTIME_AWARE_MTU_TIME_S: Final = 0.5
LXMF_MAX_PATHLESS_TRIES: Final = 1
LXMF_LINK_MAX_INACTIVITY_S: Final = 600
LXMF_NODE_LINK_MAX_INACTIVITY_S: Final = 180
LXMF_MESSAGE_EXPIRY_S: Final = 2592000
LXMF_NODE_ANNOUNCE_DELAY_S: Final = 20
LXMF_NODE_STAMP_THROTTLE_S: Final = 180
LXMF_MAX_INBOUND_SYNCS: Final = 3
LXMF_MAX_PEERS: Final = 20
LXMF_AUTOPEER_MAXDEPTH: Final = 4
LXMF_FASTEST_N_RANDOM_POOL: Final = 2
LXMF_ROTATION_HEADROOM_PCT: Final = 10
LXMF_ROTATION_AR_MAX: Final = 0.5
LXMF_SYNC_PATH_TIMEOUT_S: Final = 10
LXMF_SYNC_ALL_MESSAGES: Final = 0
"""As the number of messages to fetch: no bound."""
LXMF_AUTOPEER: Final = True
LXMF_SEQUENTIAL_VALIDATION: Final = True
LXMF_STATIC_SEQUENTIAL: Final = False
LXMF_JOB_OUTBOUND_S: Final = 4
LXMF_JOB_STAMPS_S: Final = 4
LXMF_JOB_LINKS_S: Final = 4
LXMF_JOB_RESOURCES_S: Final = 8
LXMF_JOB_PEER_INGEST_S: Final = 24
LXMF_JOB_PEER_SYNC_S: Final = 24
LXMF_JOB_TRANSIENT_S: Final = 240
LXMF_JOB_STORE_S: Final = 480
LXMF_JOB_ROTATE_S: Final = 1344
LXMF_SYNC_BACKOFF_STEP_S: Final = 720
LXMF_PEER_MAX_UNREACHABLE_S: Final = 1209600
LXMF_PEER_PATH_REQUEST_GRACE_S: Final = 7.5
LXMF_ENCRYPTION_EC: Final = "Curve25519"
"""How a stored message says that it came encrypted (LXMF 11.4)."""
LXMF_ENCRYPTION_AES: Final = "AES-256"
LXMF_ENCRYPTION_NONE: Final = "Unencrypted"
LXMF_PATH_OFFER: Final = "/offer"
LXMF_PATH_GET: Final = "/get"
LXMF_PATH_STATS_GET: Final = "/pn/get/stats"
LXMF_PATH_PEER_SYNC: Final = "/pn/peer/sync"
LXMF_PATH_PEER_UNPEER: Final = "/pn/peer/unpeer"

# ---------------------------------------- the flat table

_PREFIXES: Final[tuple[tuple[str, type[IntEnum] | type[IntFlag]], ...]] = (
    ("", HeaderType),
    ("", TransportType),
    ("", DestinationType),
    ("", PacketType),
    ("PACKET_FLAG_", PacketFlag),
    ("CONTEXT_", Context),
    ("DIRECTION_", Direction),
    ("PROVE_", ProofStrategy),
    ("ALLOW_", RequestPolicy),
    ("RECEIPT_", ReceiptState),
    ("IF_", InterfaceMode),
    ("PATH_", PathState),
    ("MODE_", LinkMode),
    ("LINK_", LinkState),
    ("LINK_", TeardownReason),
    ("REQUEST_", RequestState),
    ("RESOURCE_FLAG_", ResourceFlag),
    ("RESOURCE_STATE_", ResourceState),
    ("RESOURCE_ACCEPT_", ResourceStrategy),
    ("LXMF_STATE_", MessageState),
    ("LXMF_METHOD_", Method),
    ("LXMF_REPRESENTATION_", Representation),
    ("LXMF_", Unverified),
    ("LXMF_FIELD_", Field),
    ("LXMF_RENDERER_", Renderer),
    ("LXMF_AM_", AudioMode),
    ("LXMF_PN_META_", NodeMeta),
    ("LXMF_ERROR_", PeerError),
    ("LXMF_PEER_", PeerState),
    ("LXMF_STRATEGY_", SyncStrategy),
    ("LXMF_SYNC_", SyncState),
    ("LXMF_OFFER_", OfferState),
)


def _flatten() -> Mapping[str, int | float]:
    """Collects the numbers of this module and of its enumerations under flat names."""
    table: dict[str, int | float] = {
        name: value
        for name, value in globals().items()
        if name.isupper() and not name.startswith("_") and type(value) in (int, float)
    }
    for prefix, codes in _PREFIXES:
        for code in codes:
            name = prefix + str(code.name)
            if name in table:
                raise AssertionError(f"two constants are called {name}")
            table[name] = int(code)
    return MappingProxyType(table)


TABLE: Final[Mapping[str, int | float]] = _flatten()
"""Every number of this module under one name each; read-only."""
