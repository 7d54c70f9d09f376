"""Simplified Chinese: ISO dates as in forms, and seconds, because due times have them."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
# With the offset, for the times that no column of the platform shows: UTC+0800.
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i:s \U\T\CO"
FIRST_DAY_OF_WEEK = 1

# Forms show a value in the first format: without seconds there, saving a form would drop them.
DATE_INPUT_FORMATS = ["%Y-%m-%d", "%Y/%m/%d", "%Y年%m月%d日"]
TIME_INPUT_FORMATS = ["%H:%M:%S", "%H:%M:%S.%f", "%H:%M"]
DATETIME_INPUT_FORMATS = [
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y年%m月%d日 %H:%M:%S",
    "%Y年%m月%d日 %H:%M",
]
