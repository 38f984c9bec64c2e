from django.apps import AppConfig

from codservice.retention import SWEEPS


class UploadsConfig(AppConfig):
    name = "codservice.uploads"
    label = "uploads"
    verbose_name = "Uploads"

    def ready(self) -> None:
        from codservice.files.account_export import TABLES, Table
        from codservice.uploads import retention
        from codservice.uploads.models import RefusedRow, Upload

        SWEEPS["uploads"] = retention.forget_uploads
        TABLES["uploads"] = Table(Upload, ("kind", "created_at", "id"))
        TABLES["refused_rows"] = Table(RefusedRow, ("line",), link="upload", below="uploads", most=50)
